import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.atomic.LongAdder;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * A comparison for the job: Kafka Streams resolves the same transactions, exactly once.
 *
 * <p>A half waits in the state store for its op, with its body, because Streams has no look-up by
 * offset; an op that is processed before its half waits there for the half. It sends no check
 * requests. At an interval it prints as a JSON line what it did. SIGTERM ends it.
 *
 * <p>Arguments: a file with Streams' own settings, the half topic, the op topic, the real topic, the
 * interval in milliseconds.
 */
public final class TransactionStreams {
    private static final String PENDING = "pending";
    private static final String COMMIT = "8";
    private static final Set<String> KEPT = Set.of("PGROUP", "UNIQ_KEY", "TAGS");
    private static final Duration CLOSE_WAIT = Duration.ofSeconds(60);
    private static final LongAdder records = new LongAdder();
    private static final LongAdder finals = new LongAdder();
    private static long printedMs = System.currentTimeMillis();
    private static long printedRecords;

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (var file = Files.newBufferedReader(Path.of(arguments[0]))) {
            settings.load(file);
        }
        KafkaStreams streams =
                new KafkaStreams(topology(arguments[1], arguments[2], arguments[3]), settings);
        streams.setUncaughtExceptionHandler(TransactionStreams::fail);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> end(streams)));
        long everyMs = Long.parseLong(arguments[4]);
        streams.start();
        while (true) {
            Thread.sleep(everyMs);
            print();
        }
    }

    private static Topology topology(String halfTopic, String opTopic, String realTopic) {
        var bytes = new ByteArrayDeserializer();
        var written = new ByteArraySerializer();
        var kept = Stores.persistentKeyValueStore(PENDING);
        var store =
                Stores.keyValueStoreBuilder(kept, Serdes.Long(), Serdes.ByteArray())
                        .withCachingEnabled();
        return new Topology()
                .addSource("records", bytes, bytes, halfTopic, opTopic)
                .addProcessor("resolver", () -> new Resolver(halfTopic), "records")
                .addStateStore(store, "resolver")
                .addSink("finals", realTopic, written, written, "resolver");
    }

    /** Prints what was done since the last time. */
    private static synchronized void print() {
        long nowMs = System.currentTimeMillis();
        long now = records.sum();
        System.out.printf(
                "{\"event\": \"interval\", \"started_ms\": %d, \"took_ms\": %d, \"rows\": %d,"
                        + " \"finals\": %d}%n",
                printedMs, nowMs - printedMs, now - printedRecords, finals.sum());
        System.out.flush();
        printedMs = nowMs;
        printedRecords = now;
    }

    /** Ends the process: Streams would go on without the thread that failed. */
    private static StreamThreadExceptionResponse fail(Throwable failure) {
        failure.printStackTrace();
        Runtime.getRuntime().halt(1);
        return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
    }

    private static void end(KafkaStreams streams) {
        boolean isClosed = streams.close(CLOSE_WAIT);
        print();
        // Otherwise a JVM ended by a signal exits with 143, whether or not all was committed.
        Runtime.getRuntime().halt(isClosed ? 0 : 1);
    }

    /** Keeps the first of half and op; sends the final message when the second one comes. */
    private static final class Resolver implements Processor<byte[], byte[], byte[], byte[]> {
        private final String halfTopic;
        private ProcessorContext<byte[], byte[]> context;
        private KeyValueStore<Long, byte[]> pending;

        Resolver(String halfTopic) {
            this.halfTopic = halfTopic;
        }

        @Override
        public void init(ProcessorContext<byte[], byte[]> given) {
            context = given;
            pending = given.getStateStore(PENDING);
        }

        @Override
        public void process(Record<byte[], byte[]> record) {
            RecordMetadata position = context.recordMetadata().orElseThrow();
            boolean isHalf = position.topic().equals(halfTopic);
            Header state = record.headers().lastHeader("COMMIT_OR_ROLLBACK");
            if (!isHalf && state == null) {
                return; // the job's start record, which means nothing
            }
            records.increment();
            long offset = isHalf ? position.offset() : Long.parseLong(text(record.value()));
            byte[] other = pending.get(offset);
            if (other == null) {
                pending.put(offset, isHalf ? packed(record) : state.value());
                return;
            }
            pending.delete(offset);
            if (COMMIT.equals(text(isHalf ? other : state.value()))) {
                byte[] half = isHalf ? packed(record) : other;
                context.forward(finalOf(half, position.partition(), offset));
                finals.increment();
            }
        }
    }

    /** A half as the store keeps it: time, key, headers, body. */
    private static byte[] packed(Record<byte[], byte[]> half) {
        List<byte[]> parts = new ArrayList<>();
        parts.add(half.key());
        for (Header header : half.headers()) {
            parts.add(header.key().getBytes(StandardCharsets.UTF_8));
            parts.add(header.value());
        }
        int size = 12 + half.value().length;
        for (byte[] part : parts) {
            size += 4 + part.length;
        }
        ByteBuffer into = ByteBuffer.allocate(size).putLong(half.timestamp()).putInt(parts.size());
        for (byte[] part : parts) {
            into.putInt(part.length).put(part);
        }
        return into.put(half.value()).array();
    }

    /** The final message of a half kept in this form. */
    private static Record<byte[], byte[]> finalOf(byte[] half, int partition, long offset) {
        ByteBuffer from = ByteBuffer.wrap(half);
        long timestamp = from.getLong();
        int headers = (from.getInt() - 1) / 2;
        byte[] key = part(from, from.getInt());
        Headers kept = new RecordHeaders();
        for (int at = 0; at < headers; at++) {
            String name = text(part(from, from.getInt()));
            byte[] value = part(from, from.getInt());
            if (KEPT.contains(name)) {
                kept.add(name, value);
            }
        }
        kept.add("TRAN_PREPARED_QUEUE_OFFSET", Long.toString(offset).getBytes());
        kept.add("TRAN_HALF_QUEUE_ID", Integer.toString(partition).getBytes());
        return new Record<>(key, part(from, from.remaining()), timestamp, kept);
    }

    private static byte[] part(ByteBuffer from, int size) {
        byte[] found = new byte[size];
        from.get(found);
        return found;
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
