package io.checkback.client.jdbc;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.File;
import java.io.IOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;

/** A PostgreSQL and a MariaDB of the tests' own, each where its programs are on the PATH. */
final class DatabaseServer {
    private static final Duration START = Duration.ofSeconds(60);
    private static final List<String> URLS = start();

    private DatabaseServer() {}

    /** Returns the JDBC addresses of the servers; MariaDB has one for each of two drivers. */
    static List<String> urls() {
        return URLS;
    }

    private static List<String> start() {
        List<String> urls = new ArrayList<>();
        try {
            if (isThere("initdb")) {
                urls.add(startPostgres());
            }
            if (Stream.of("mariadbd", "mariadb-install-db", "my_print_defaults").allMatch(DatabaseServer::isThere)) {
                String server = startMariaDb();
                urls.add("jdbc:mariadb:" + server);
                urls.add("jdbc:mysql:" + server);
            }
        } catch (IOException | InterruptedException error) {
            throw new AssertionError(error);
        }
        return urls;
    }

    private static String startPostgres() throws IOException {
        Path folder = folder();
        int port = freePort();
        String data = folder.resolve("data").toString();
        run(asUser(List.of("initdb", "-D", data, "-U", "checkback", "-A", "trust", "-N")));
        String options = "-h 127.0.0.1 -p " + port + " -k " + folder + " -c fsync=off";
        run(asUser(List.of("pg_ctl", "-D", data, "-o", options, "-l", folder + "/log", "-w", "start")));
        atExit(folder, () -> run(asUser(List.of("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop"))));
        return "jdbc:postgresql://127.0.0.1:" + port + "/postgres?user=checkback";
    }

    private static String startMariaDb() throws IOException, InterruptedException {
        Path folder = folder();
        int port = freePort();
        String data = "--datadir=" + folder.resolve("data");
        run(asUser(List.of("mariadb-install-db", "--no-defaults", data, "--skip-test-db",
                "--auth-root-authentication-method=normal")));
        Path log = folder.resolve("log");
        Process server = process(
                asUser(List.of("mariadbd", "--no-defaults", data, "--bind-address=127.0.0.1", "--port=" + port,
                        "--socket=" + folder.resolve("socket"), "--innodb-flush-log-at-trx-commit=0")),
                log);
        atExit(folder, () -> server.destroyForcibly().onExit().join());
        String address = "//127.0.0.1:" + port + "/orders?user=root&createDatabaseIfNotExist=true";
        Instant end = Instant.now().plus(START);
        while (!answers("jdbc:mariadb:" + address)) {
            if (!server.isAlive() || Instant.now().isAfter(end)) {
                throw new AssertionError("MariaDB did not start: " + Files.readString(log, UTF_8));
            }
            Thread.sleep(50);
        }
        return address;
    }

    private static boolean answers(String url) {
        try {
            DriverManager.getConnection(url).close();
            return true;
        } catch (SQLException error) {
            return false;
        }
    }

    private static boolean isThere(String program) {
        return Arrays.stream(System.getenv("PATH").split(File.pathSeparator))
                .anyMatch(folder -> Files.isExecutable(Path.of(folder, program)));
    }

    private static Path folder() throws IOException {
        Path folder = Files.createTempDirectory("checkback-database");
        if (isRoot()) {
            run(List.of("chown", "nobody", folder.toString()));
        }
        return folder;
    }

    private static void atExit(Path folder, Runnable stop) {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stop.run();
            run(List.of("rm", "-r", folder.toString()));
        }));
    }

    private static int freePort() throws IOException {
        try (ServerSocket free = new ServerSocket(0)) {
            return free.getLocalPort();
        }
    }

    private static boolean isRoot() {
        return System.getProperty("user.name").equals("root");
    }

    private static List<String> asUser(List<String> command) {
        List<String> whole = new ArrayList<>();
        if (isRoot()) { // as which the servers refuse to run
            whole.addAll(List.of("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"));
        }
        whole.addAll(command);
        return whole;
    }

    private static void run(List<String> command) {
        try {
            Path said = Files.createTempFile("checkback-database", ".log");
            if (process(command, said).waitFor() != 0) {
                throw new AssertionError(command + ": " + Files.readString(said, UTF_8));
            }
            Files.delete(said);
        } catch (IOException | InterruptedException error) {
            throw new AssertionError(error);
        }
    }

    private static Process process(List<String> command, Path log) throws IOException {
        return new ProcessBuilder(command)
                .directory(new File("/tmp"))
                .redirectErrorStream(true)
                .redirectOutput(log.toFile())
                .start();
    }
}
