package io.checkback.client;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.header.Header;

/** docs/protocol.md: its examples and its tables. */
public final class WireFormat {
    private static final Path DOCUMENT = Path.of("..", "..", "docs", "protocol.md");

    private WireFormat() {}

    private static String text() {
        try {
            return Files.readString(DOCUMENT);
        } catch (IOException error) {
            throw new AssertionError(error);
        }
    }

    /** Returns an example as it stands. */
    public static String example(String name) {
        String block = "^Example, " + name + ":\n\n```\n(.*?)\n```$";
        Matcher found = Pattern.compile(block, Pattern.MULTILINE | Pattern.DOTALL).matcher(text());
        if (!found.find()) {
            throw new AssertionError("no example " + name);
        }
        return found.group(1);
    }

    /** Returns a column of the first table under a heading. */
    public static List<String> column(String heading, int number) {
        String section = text().split("\n" + Pattern.quote(heading) + "\n", 2)[1];
        Matcher table = Pattern.compile("(?:^\\|.*\n)+", Pattern.MULTILINE).matcher(section);
        if (!table.find()) {
            throw new AssertionError("no table under " + heading);
        }
        List<String> cells = new ArrayList<>();
        table.group().lines().skip(2).forEach(line -> cells.add(
                line.substring(1).split("\\|")[number].strip().replace("`", "")));
        return cells;
    }

    /** Writes a record as the document does. */
    public static String record(byte[] key, byte[] value, Iterable<Header> headers) {
        List<String> lines = new ArrayList<>(List.of("key     " + hex(key), "value   " + hex(value)));
        for (Header header : headers) {
            lines.add(("header  " + hex(header.key().getBytes(UTF_8)) + " = " + hex(header.value())).stripTrailing());
            lines.add(("        " + header.key() + " = " + new String(header.value(), UTF_8)).stripTrailing());
        }
        return String.join("\n", lines);
    }

    /** Returns the bytes of a value that stands in several lines. */
    public static byte[] bytes(String block) {
        return HexFormat.of().parseHex(block.replace("value", "").replaceAll("\\s", ""));
    }

    private static String hex(byte[] bytes) {
        return HexFormat.ofDelimiter(" ").formatHex(bytes);
    }
}
