package checkback.tests;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.transforms.Transformation;

/** Shows a sink's record as text: its body, and each header with the type that a converter chose. */
public final class HeaderTypes implements Transformation<SinkRecord> {
    @Override
    public SinkRecord apply(SinkRecord given) {
        var line = new StringBuilder(text(given.value()));
        for (Header one : given.headers()) {
            var type = one.schema() == null ? "none" : one.schema().type().getName();
            line.append("\t" + one.key() + ":" + type + "=" + text(one.value()));
        }
        return given.newRecord(
                given.topic(), given.kafkaPartition(), null, null, null, line.toString(), null);
    }

    private static String text(Object value) {
        if (value instanceof byte[] bytes) {
            return new String(bytes, StandardCharsets.ISO_8859_1);
        }
        return String.valueOf(value);
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public void configure(Map<String, ?> settings) {}

    @Override
    public void close() {}
}
