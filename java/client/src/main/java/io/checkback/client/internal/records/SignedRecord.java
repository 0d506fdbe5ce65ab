package io.checkback.client.internal.records;

import java.util.List;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;

/** A signed record. Headers that agents and interceptors add would void its signature: they are passed over. */
public final class SignedRecord extends ProducerRecord<byte[], byte[]> {
    private final Headers signed;

    /** Makes a record; the last of the headers is the signature. */
    public SignedRecord(
            String topic, Integer partition, Long timestampMs, byte[] key, byte[] value, List<Header> headers) {
        super(topic, partition, timestampMs, key, value);
        this.signed = new SignedHeaders(headers);
    }

    @Override
    public Headers headers() {
        return signed;
    }

    private static final class SignedHeaders extends RecordHeaders {
        SignedHeaders(List<Header> headers) {
            super(headers);
        }

        @Override
        public Headers add(Header header) {
            return this;
        }

        @Override
        public Headers add(String key, byte[] value) {
            return this;
        }

        @Override
        public Headers remove(String key) {
            return this;
        }
    }
}
