package io.checkback.client.jdbc;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.File;
import java.io.IOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;

/** A PostgreSQL of the tests' own, where its programs are on the PATH. */
final class PostgresServer {
    private static final Optional<String> URL = start();

    private PostgresServer() {}

    /** Returns its JDBC address, empty where there is none. */
    static Optional<String> url() {
        return URL;
    }

    private static Optional<String> start() {
        boolean isThere = Arrays.stream(System.getenv("PATH").split(File.pathSeparator))
                .anyMatch(folder -> Files.isExecutable(Path.of(folder, "initdb")));
        if (!isThere) {
            return Optional.empty();
        }
        try {
            Path folder = Files.createTempDirectory("checkback-postgres");
            int port = freePort();
            if (isRoot()) {
                run(List.of("chown", "nobody", folder.toString()));
            }
            String data = folder.resolve("data").toString();
            runAsUser(List.of("initdb", "-D", data, "-U", "checkback", "-A", "trust", "-N"));
            String options = "-h 127.0.0.1 -p " + port + " -k " + folder + " -c fsync=off";
            runAsUser(List.of("pg_ctl", "-D", data, "-o", options, "-l", folder + "/log", "-w", "start"));
            Runtime.getRuntime().addShutdownHook(new Thread(() ->
                    runAsUser(List.of("pg_ctl", "-D", data, "-m", "immediate", "stop"))));
            return Optional.of("jdbc:postgresql://127.0.0.1:" + port + "/postgres?user=checkback");
        } catch (IOException error) {
            throw new AssertionError(error);
        }
    }

    private static int freePort() throws IOException {
        try (ServerSocket free = new ServerSocket(0)) {
            return free.getLocalPort();
        }
    }

    private static boolean isRoot() {
        return System.getProperty("user.name").equals("root");
    }

    private static void runAsUser(List<String> command) {
        List<String> whole = new ArrayList<>();
        if (isRoot()) { // as which its programs refuse to run
            whole.addAll(List.of("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"));
        }
        whole.addAll(command);
        run(whole);
    }

    private static void run(List<String> command) {
        try {
            Path said = Files.createTempFile("checkback-postgres", ".log");
            Process process = new ProcessBuilder(command)
                    .directory(new File("/tmp"))
                    .redirectErrorStream(true)
                    .redirectOutput(said.toFile())
                    .start();
            if (process.waitFor() != 0) {
                throw new AssertionError(command + ": " + Files.readString(said, UTF_8));
            }
            Files.delete(said);
        } catch (IOException | InterruptedException error) {
            throw new AssertionError(error);
        }
    }
}
