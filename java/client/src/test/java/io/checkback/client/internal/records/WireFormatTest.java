package io.checkback.client.internal.records;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.checkback.client.CheckRequest;
import io.checkback.client.InvalidMessageException;
import io.checkback.client.LocalTransactionState;
import io.checkback.client.WireFormat;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class WireFormatTest {
    private static final byte[] KEY = "order-1".getBytes(UTF_8);
    private static final byte[] BODY = "42 EUR".getBytes(UTF_8);
    private static final byte[] ID = "3f9c2a".getBytes(UTF_8);
    private static final byte[] OFFSET = "77".getBytes(UTF_8);
    private static final Header GROUP = Records.header("PGROUP", "order-service");
    private static final OutgoingMessage MESSAGE = new OutgoingMessage(
            "paid", KEY, BODY, "order-1", "eu",
            List.of(Records.header(PropertyNames.IMMUNITY, "30")), 1);
    private static final TopicNames TOPICS = new TopicNames("");
    private static final RecordSigner SIGNER =
            new RecordSigner("orders-service", "12345678", "HmacSHA256", "10.0.0.1", () -> 1_700_000_000_000L);

    private static List<Header> half() {
        List<Header> headers = Records.half(GROUP, "3f9c2a", MESSAGE);
        headers.add(Records.header("source", "web")); // the document's example has its property last
        return headers;
    }

    private static List<Header> op(LocalTransactionState state, boolean isAnswer, String remark) {
        return Records.op(GROUP, "3f9c2a", state, isAnswer, remark);
    }

    @Test
    void recordsAreThoseOfTheDocument() {
        List<Header> commit = op(LocalTransactionState.COMMIT_MESSAGE, false, "");
        assertEquals(WireFormat.example("half"), WireFormat.record(KEY, BODY, half()));
        assertEquals(WireFormat.example("op"), WireFormat.record(ID, OFFSET, commit));
        assertEquals(
                WireFormat.example("answer to a check"),
                WireFormat.record(ID, OFFSET, op(LocalTransactionState.UNKNOW, true, "not found")));
        assertEquals(
                WireFormat.example("signed half"),
                WireFormat.record(KEY, BODY, SIGNER.sign(TOPICS.half(), null, KEY, BODY, half())));
        assertEquals(
                WireFormat.example("signed op"),
                WireFormat.record(ID, OFFSET, SIGNER.sign(TOPICS.op(), 2, ID, OFFSET, commit)));
    }

    @Test
    void signedBytesAreThoseOfTheDocument() {
        List<Header> stated = new ArrayList<>(op(LocalTransactionState.COMMIT_MESSAGE, false, ""));
        stated.add(Records.header("__BORNHOST", "10.0.0.1"));
        stated.add(Records.header("Signature", "1700000000000 orders-service "));
        assertArrayEquals(
                WireFormat.bytes(WireFormat.example("what is signed of the op")),
                SIGNER.content(TOPICS.op(), 2, ID, OFFSET, stated));
    }

    @Test
    void tablesAreThoseOfTheDocument() {
        assertEquals(Set.copyOf(WireFormat.column("### Reserved names", 0)), PropertyNames.RESERVED);
        for (String name : WireFormat.column("### System topics", 0)) {
            String one = name.replace("*", "anything");
            assertTrue(TOPICS.isSystem(one), one);
            assertTrue(new TopicNames("p.").isSystem("p." + one), one);
        }
        Set<String> topics = new HashSet<>(WireFormat.column("## Topics", 0));
        assertTrue(topics.containsAll(List.of(TOPICS.half(), TOPICS.op(), TOPICS.status(), TOPICS.check("<group>"))));
        assertEquals(
                List.of("8", "12", "0"),
                List.of(LocalTransactionState.values()).stream().map(one -> "" + one.code()).toList());
    }

    private static ConsumerRecord<byte[], byte[]> request(Header... headers) {
        return new ConsumerRecord<>(
                "check", 0, 0, 1_000, TimestampType.LOG_APPEND_TIME, 0, 0, KEY, BODY, new RecordHeaders(headers),
                Optional.empty());
    }

    @Test
    void checkRequestIsTheMessageAgain() {
        List<Header> headers = half();
        headers.add(Records.header(PropertyNames.CHECK_TIMES, "2"));
        headers.add(Records.header(PropertyNames.CHECK_INTERVAL_MS, "60000"));
        headers.add(Records.header(PropertyNames.HALF_OFFSET, "77"));
        headers.add(Records.header(PropertyNames.HALF_PARTITION, "2"));
        headers.add(new RecordHeader("bytes", new byte[] {-1}));
        CheckRequest read = Records.checkRequest(request(headers.toArray(Header[]::new)));
        assertEquals(
                List.of("3f9c2a", "paid", "order-1", "eu", 1, "order-service", 2, 77L, 2, 1_000L, 60_000L),
                List.of(
                        read.id(), read.topic(), read.keys(), read.tags(), read.queueId(), read.group(),
                        read.halfPartition(), read.halfOffset(), read.checkTimes(), read.requestedAtMs(),
                        read.checkIntervalMs()));
        assertEquals(
                List.of(PropertyNames.IMMUNITY, "source", "bytes"),
                read.headers().stream().map(Header::key).toList());
    }

    @ParameterizedTest
    @CsvSource({
        "UNIQ_KEY,", "UNIQ_KEY,''", "TRAN_HALF_QUEUE_ID,", "TRAN_HALF_QUEUE_ID,-1", "TRAN_HALF_QUEUE_ID,2147483648",
        "TRAN_PREPARED_QUEUE_OFFSET,", "TRAN_PREPARED_QUEUE_OFFSET,x", "TRANSACTION_CHECK_TIMES,' 1'"
    })
    void requestThatSaysTooLittleIsRefused(String name, String value) {
        RecordHeaders headers = new RecordHeaders(new Header[] {
            Records.header("UNIQ_KEY", "id"), Records.header(PropertyNames.HALF_PARTITION, "0"),
            Records.header(PropertyNames.HALF_OFFSET, "1"), Records.header(PropertyNames.CHECK_TIMES, "1")
        });
        headers.remove(name);
        if (value != null) {
            headers.add(Records.header(name, value));
        }
        assertThrows(InvalidMessageException.class, () -> Records.checkRequest(request(headers.toArray())));
    }

    @ParameterizedTest
    @CsvSource({
        "10.0.0.1,10.0.0.1",
        "::1,0000:0000:0000:0000:0000:0000:0000:0001",
        "fe80::A,fe80:0000:0000:0000:0000:0000:0000:000a",
        "::ffff:10.0.0.1,0000:0000:0000:0000:0000:ffff:0a00:0001"
    })
    void bornHostStandsInFull(String given, String stated) {
        RecordSigner signer = new RecordSigner("account", "12345678", "HmacSHA1", given, () -> 1L);
        List<Header> signed = signer.sign("t", null, null, BODY, List.of());
        assertEquals(stated, new String(signed.get(0).value(), UTF_8));
        int bytes = RecordSize.bytesMax(null, null, signed) - RecordSize.bytesMax(null, null, List.of());
        assertTrue(bytes <= signer.bytesMax());
    }

    @Test
    void agentsAddNoHeaderToASignedRecord() {
        List<Header> signed = SIGNER.sign(TOPICS.half(), null, KEY, BODY, half());
        SignedRecord record = new SignedRecord(TOPICS.half(), null, null, KEY, BODY, signed);
        record.headers().add("traceparent", BODY).add(GROUP).remove(PropertyNames.SIGNATURE);
        assertEquals(signed, List.of(record.headers().toArray()));
    }

    @ParameterizedTest
    @CsvSource({"49, false", "-1, true"})
    void aValueWithASeparatorIsNotSigned(byte last, boolean isRefused) {
        OutgoingMessage message = new OutgoingMessage(
                "t", null, BODY, "", "", List.of(new RecordHeader("a", new byte[] {49, last})), null);
        if (isRefused) {
            assertThrows(InvalidMessageException.class, () -> Validation.requireSignable(message));
        } else {
            Validation.requireSignable(message);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"localhost", "10.0.0.256", "fe80::1%eth0", "1:2"})
    void bornHostIsAnAddress(String given) {
        assertThrows(
                ConfigException.class,
                () -> new RecordSigner("account", "12345678", "HmacSHA1", given, () -> 1L));
    }

    @ParameterizedTest
    @ValueSource(strings = {"a b", "a\nb", "a\u00a0b", "a\u0000", "a\u2028"})
    void accessKeyHasNoSpace(String accessKey) {
        assertThrows(
                ConfigException.class, () -> new RecordSigner(accessKey, "12345678", "HmacSHA256", "", () -> 1L));
    }

    @Test
    void remarkIsOneShortLine() {
        assertEquals("java.lang.IllegalStateException: a b", Records.oneLine(new IllegalStateException("a\n \tb")));
        assertEquals(1_024, Records.oneLine(new IllegalStateException("x".repeat(5_000))).length());
    }
}
