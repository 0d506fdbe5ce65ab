package io.checkback.client.internal.records;

import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.header.Header;

/** How large a record gets on a topic: upper bounds of what Kafka's message format 2 adds. */
public final class RecordSize {
    private static final int BATCH_AND_RECORD_BYTES = 61 + 21;
    private static final int HEADER_BYTES = 10;

    private RecordSize() {}

    /** Returns how large a batch of this one record can get, uncompressed. */
    public static int bytesMax(byte[] key, byte[] value, Iterable<Header> headers) {
        int size = BATCH_AND_RECORD_BYTES + length(key) + length(value);
        for (Header header : headers) {
            size += headerBytesMax(header.key(), length(header.value()));
        }
        return size;
    }

    /** Returns how much of a record a header can take. */
    public static int headerBytesMax(String name, int valueBytes) {
        return HEADER_BYTES + name.getBytes(StandardCharsets.UTF_8).length + valueBytes;
    }

    private static int length(byte[] bytes) {
        return bytes == null ? 0 : bytes.length;
    }
}
