package io.checkback.client;

import static io.checkback.client.TestBroker.eventually;
import static io.checkback.client.TestBroker.texts;
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.checkback.client.internal.records.PropertyNames;
import io.checkback.client.internal.records.TopicNames;
import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.ToolProvider;
import org.apache.kafka.common.config.ConfigDef;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** docs/java.md: its programs run as they stand, its settings are the code's. */
class JavaDocumentTest {
    private static final Path DOCUMENT = Path.of("..", "..", "docs", "java.md");

    private final TestBroker broker = TestBroker.shared();

    @TempDir
    Path folder;

    private void run(String name, String prefix) throws Exception {
        Matcher program = Pattern.compile("```java\n// " + name + "\\.java\n(.*?)```", Pattern.DOTALL)
                .matcher(Files.readString(DOCUMENT));
        assertEquals(true, program.find(), name);
        String text = program.group(1).replace("localhost:9092", broker.bootstrapServers()).replace(
                "\"paid\"", "\"" + prefix + "paid\"");
        Path source = Files.writeString(folder.resolve(name + ".java"), text);
        String path = System.getProperty("java.class.path");
        assertEquals(0, ToolProvider.getSystemJavaCompiler().run(
                null, null, null, "-cp", path, "-d", folder.toString(), source.toString()));
        try (var loader = new URLClassLoader(new URL[] {folder.toUri().toURL()}, getClass().getClassLoader())) {
            loader.loadClass(name).getMethod("main", String[].class).invoke(null, (Object) new String[0]);
        }
    }

    @Test
    void programsRunAsTheyStand() throws Exception {
        String prefix = broker.topics("paid");
        broker.plainTopics(); // the document's programs have no prefix
        TopicNames topics = new TopicNames("");

        run("Pay", prefix);
        run("TransactionProducer", prefix);

        var ops = eventually(() -> broker.read(topics.op()), found -> found.size() >= 11);
        assertEquals(
                List.of("0", "0", "0", "0", "0", "0", "0", "0", "0", "0", "8"),
                texts(ops, PropertyNames.COMMIT_OR_ROLLBACK).stream().sorted().toList());
    }

    @Test
    void settingsAreThoseOfTheCode() throws IOException {
        List<String> rows = Files.readAllLines(DOCUMENT).stream()
                .filter(line -> line.startsWith("| `bootstrap.servers`") || line.startsWith("| `checkback."))
                .toList();
        List<String> expected = CheckbackConfig.DEFINITION.configKeys().values().stream()
                .map(JavaDocumentTest::row)
                .toList();
        assertEquals(expected.stream().sorted().toList(), rows.stream().sorted().toList());
    }

    private static String row(ConfigDef.ConfigKey key) {
        boolean isUnset = !key.hasDefault() || key.type() == ConfigDef.Type.PASSWORD;
        String value = isUnset || key.defaultValue.equals("") ? "" : key.defaultValue + " ";
        return "| `" + key.name + "` | " + value + "| " + key.documentation + " |";
    }
}
