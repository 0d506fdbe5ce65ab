package io.checkback.client;

import static io.checkback.client.LocalTransactionState.COMMIT_MESSAGE;
import static io.checkback.client.LocalTransactionState.ROLLBACK_MESSAGE;
import static io.checkback.client.LocalTransactionState.UNKNOW;
import static io.checkback.client.TestBroker.eventually;
import static io.checkback.client.TestBroker.texts;
import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.checkback.client.internal.records.PropertyNames;
import io.checkback.client.internal.records.Records;
import io.checkback.client.internal.records.TopicNames;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import javax.management.ObjectName;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.clients.producer.RoundRobinPartitioner;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class CheckbackProducerTest {
    private final TestBroker broker = TestBroker.shared();
    private final ConcurrentLinkedQueue<CheckRequest> asked = new ConcurrentLinkedQueue<>();
    private String prefix;
    private TopicNames topics;
    private CheckbackProducer<String, String> producer;

    @BeforeEach
    void start() {
        prefix = broker.topics("paid");
        topics = new TopicNames(prefix);
        producer = started(broker.settings(prefix, "orders"));
    }

    private CheckbackProducer<String, String> started(Map<String, Object> settings) {
        var made = new CheckbackProducer<>(settings, new StringSerializer(), new StringSerializer());
        made.onCheck(check -> {
            asked.add(check);
            return COMMIT_MESSAGE;
        });
        made.start();
        return made;
    }

    @AfterEach
    void stop() {
        producer.close();
    }

    private ProducerRecord<String, String> order(String body) {
        return new ProducerRecord<>(prefix + "paid", "order-1", body);
    }

    private List<ConsumerRecord<byte[], byte[]>> ops(int count) throws Exception {
        return eventually(() -> broker.read(topics.op()), found -> found.size() >= count);
    }

    private void ask(SendOutcome half, String transactionId) {
        List<Header> headers = List.of(
                Records.header(PropertyNames.UNIQ_KEY, transactionId),
                Records.header(PropertyNames.CHECK_TIMES, "1"),
                Records.header(PropertyNames.CHECK_INTERVAL_MS, "60000"),
                Records.header(PropertyNames.HALF_OFFSET, Long.toString(half.offset())),
                Records.header(PropertyNames.HALF_PARTITION, Integer.toString(half.partition())));
        broker.write(topics.check("orders"), null, "body", headers);
    }

    /** An interceptor of Kafka's producers, as tracing agents add one; a consumer can't have it. */
    public static final class Interceptor implements ProducerInterceptor<byte[], byte[]> {
        @Override
        public ProducerRecord<byte[], byte[]> onSend(ProducerRecord<byte[], byte[]> record) {
            return record;
        }

        @Override
        public void onAcknowledgement(RecordMetadata metadata, Exception exception) {}

        @Override
        public void close() {}

        @Override
        public void configure(Map<String, ?> configs) {}
    }

    @Test
    void settingsOfKafkasClientsMoveNoHalfAndReachTheRightClients() {
        producer.close();
        Map<String, Object> settings = broker.settings(prefix, "orders");
        settings.put("partitioner.class", RoundRobinPartitioner.class.getName());
        settings.put("partitioner.ignore.keys", true);
        settings.put("interceptor.classes", Interceptor.class.getName());
        producer = started(settings);

        List<Integer> places = IntStream.range(0, 6)
                .mapToObj(number -> producer.send(order("of one key"), Transaction::commit).partition())
                .distinct()
                .toList();
        assertEquals(1, places.size());
    }

    @Test
    void shutdownWaitsForOpenedTransactions() throws Exception {
        var opened = producer.begin(List.of(order("1"), order("2")));
        Future<Integer> left = Executors.newSingleThreadExecutor().submit(() -> producer.shutdown());
        assertThrows(TimeoutException.class, () -> left.get(300, TimeUnit.MILLISECONDS));
        opened.get(0).leaveToCheck();
        opened.get(1).end(COMMIT_MESSAGE);
        opened.get(1).leaveToCheck(); // counts once

        assertEquals(0, left.get());
        assertEquals(List.of("8"), texts(ops(1), PropertyNames.COMMIT_OR_ROLLBACK));
    }

    @Test
    void eachEndIsReturnedAndSaid() throws Exception {
        var committed = producer.send(order("1"), Transaction::commit);
        var rolledBack = producer.send(order("2"), Transaction::rollback);
        var unknown = producer.send(order("3"), tx -> null);
        var thrown = new IllegalStateException("no\nluck");
        var failed = producer.send(order("4"), tx -> {
            throw thrown;
        });
        var certain = producer.send(order("5"), tx -> {
            throw new RolledBackException(thrown);
        });

        assertEquals(
                List.of(COMMIT_MESSAGE, ROLLBACK_MESSAGE, UNKNOW, UNKNOW, ROLLBACK_MESSAGE),
                List.of(committed.state(), rolledBack.state(), unknown.state(), failed.state(), certain.state()));
        assertSame(thrown, failed.exception());
        assertSame(thrown, certain.exception().getCause());
        var ops = ops(5);
        assertEquals(List.of("8", "12", "0", "0", "12"), texts(ops, PropertyNames.COMMIT_OR_ROLLBACK));
        assertEquals("java.lang.IllegalStateException: no luck", texts(ops, PropertyNames.REMARK).get(3));
        assertEquals(committed.transactionId(), new String(ops.get(0).key(), UTF_8));
        assertEquals(committed.offset(), Long.parseLong(new String(ops.get(0).value(), UTF_8)));
    }

    @Test
    void checkIsAnsweredAndTheAnswerIsCommitted() throws Exception {
        var half = producer.send(order("1"), Transaction::unknown);
        ask(half, half.transactionId());
        ask(half, "of another process");

        var ops = ops(3);
        assertEquals(List.of("false", "true", "true"), texts(ops, PropertyNames.FROM_CHECK));
        assertEquals(List.of("0", "8", "8"), texts(ops, PropertyNames.COMMIT_OR_ROLLBACK));
        assertEquals(0, producer.shutdown());

        // Its successor is not asked again what was answered.
        producer = started(broker.settings(prefix, "orders"));
        ask(half, "third");
        ops(4);
        assertEquals(
                List.of(half.transactionId(), "of another process", "third"),
                asked.stream().map(CheckRequest::id).toList());
    }

    @Test
    void brokerThatStandsStillLeavesADoubtThatACheckRollsBack() throws Exception {
        producer.close();
        Map<String, Object> settings = broker.settings(prefix, "orders");
        settings.put(CheckbackConfig.SEND_TIMEOUT_MS, 700);
        producer = started(settings);
        var before = producer.send(order("1"), Transaction::commit);
        ops(1); // else the op may be on its way when the broker stops, and its time ends
        var ran = new AtomicInteger();
        var errors = new ArrayList<SendException>();
        broker.whileItStandsStill(() -> errors.add(assertThrows(SendException.class, () ->
                producer.send(order("2"), tx -> {
                    ran.incrementAndGet();
                    return COMMIT_MESSAGE;
                }))));

        assertTrue(errors.get(0).isInDoubt());
        assertEquals(0, ran.get());
        ask(before, errors.get(0).transactionId());
        var ops = ops(2);
        assertEquals(List.of("8", "12"), texts(ops, PropertyNames.COMMIT_OR_ROLLBACK));
        assertTrue(asked.isEmpty(), "the application is not asked for what it never ran");
    }

    @Test
    void idsAreTheirOwnAmongThreads() throws Exception {
        var threads = Executors.newFixedThreadPool(8);
        List<Future<SendOutcome>> sent = IntStream.range(0, 200)
                .mapToObj(n -> threads.submit(() ->
                        producer.send(new ProducerRecord<>(prefix + "paid", null, "" + n), Transaction::commit)))
                .toList();
        var places = new ArrayList<String>();
        for (Future<SendOutcome> one : sent) {
            places.add(one.get().partition() + "/" + one.get().offset());
        }
        threads.shutdown();
        var ids = ops(200).stream().map(one -> new String(one.key(), UTF_8)).distinct();
        assertEquals(200, ids.count());
        assertEquals(200, places.stream().distinct().count());
    }

    @Test
    void halvesAreStoredTogether() throws Exception {
        var opened = producer.begin(List.of(order("1"), order("2")));
        assertEquals(List.of("1", "2"), TestBroker.bodies(broker.read(topics.half())));
        opened.forEach(one -> one.end(COMMIT_MESSAGE));
        assertEquals(List.of("8", "8"), texts(ops(2), PropertyNames.COMMIT_OR_ROLLBACK));
        assertThrows(
                TopicNotFoundException.class,
                () -> producer.begin(List.of(order("3"), new ProducerRecord<>("no-such-topic", "4"))));
        assertEquals(2, broker.read(topics.half()).size());
    }

    @Test
    void lifeIsStartedOnceAndEnds() {
        assertThrows(IllegalStateException.class, producer::start);
        assertThrows(IllegalStateException.class, () -> started(broker.settings(prefix, "orders")));
        var left = new AtomicInteger(-1);
        producer.send(order("1"), tx -> {
            left.set(producer.shutdown());
            return tx.commit();
        });
        assertEquals(0, left.get());
        assertEquals(0, producer.shutdown());
        assertThrows(IllegalStateException.class, () -> producer.send(order("2"), Transaction::commit));
        producer = started(broker.settings(prefix, "orders"));
    }

    @Test
    void countsAreKafkaMetrics() throws Exception {
        producer.send(order("1"), Transaction::commit);
        var beans = ManagementFactory.getPlatformMBeanServer();
        var ours = new ObjectName("checkback.client:type=checkback-client-metrics,group=orders,*");
        var names = beans.queryNames(ours, null);
        assertEquals(1, names.size());
        var name = names.iterator().next();
        assertEquals(1.0, beans.getAttribute(name, "sent-total"));
        assertEquals(1.0, beans.getAttribute(name, "committed-total"));
        producer.close();
        assertTrue(beans.queryNames(name, null).isEmpty());
    }

    @ParameterizedTest
    @CsvSource({
        "checkback.group,DEFAULT_PRODUCER", "checkback.group,a b", "checkback.send.timeout.ms,1",
        "checkback.access.key,alone", "checkback.signature.algorithm,MD5", "transactional.id,x",
        "checkback.topic.prefix,a/b"
    })
    void settingsThatCanNotWorkAreRefused(String name, String value) {
        Map<String, Object> settings = broker.settings("", "orders");
        settings.put(name, value);
        assertThrows(ConfigException.class, () -> new CheckbackConfig(settings));
    }

    @Test
    void serializersComeFromSettings() {
        producer.close();
        Map<String, Object> settings = broker.settings(prefix, "orders");
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        try (var other = new CheckbackProducer<String, String>(settings)) {
            assertThrows(IllegalStateException.class, other::start);
            other.onCheck(check -> UNKNOW);
            other.start();
            assertEquals(COMMIT_MESSAGE, other.send(order("1"), Transaction::commit).state());
        }
    }

    @Test
    void wrongPrefixIsNamed() {
        Map<String, Object> settings = broker.settings("no-such-prefix.", "orders");
        var error = assertThrows(BrokerException.class, () -> started(settings));
        assertTrue(error.getMessage().contains("topic prefix"), error.getMessage());
        assertTrue(error.getMessage().contains(".'"), error.getMessage());
    }
}
