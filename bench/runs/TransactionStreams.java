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
    private static long toldMs = System.currentTimeMillis();
    private static long toldRecords;

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
            tell();
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
                .addSource("halves", bytes, bytes, halfTopic)
                .addSource("ops", bytes, bytes, opTopic)
                .addProcessor("half", OnHalf::new, "halves")
                .addProcessor("op", OnOp::new, "ops")
                .addStateStore(store, "half", "op")
                .addSink("finals", realTopic, written, written, "half", "op");
    }

    /** Prints what was done since the last time. */
    private static synchronized void tell() {
        long nowMs = System.currentTimeMillis();
        long now = records.sum();
        System.out.printf(
                "{\"event\": \"interval\", \"started_ms\": %d, \"took_ms\": %d, \"rows\": %d,"
                        + " \"finals\": %d}%n",
                toldMs, nowMs - toldMs, now - toldRecords, finals.sum());
        System.out.flush();
        toldMs = nowMs;
        toldRecords = now;
    }

    /** Ends the process: Streams would go on without the thread that failed. */
    private static StreamThreadExceptionResponse fail(Throwable failure) {
        failure.printStackTrace();
        Runtime.getRuntime().halt(1);
        return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
    }

    private static void end(KafkaStreams streams) {
        boolean isClosed = streams.close(CLOSE_WAIT);
        tell();
        // Otherwise a JVM ended by a signal exits with 143, whether or not all was committed.
        Runtime.getRuntime().halt(isClosed ? 0 : 1);
    }

    private abstract static class Resolving implements Processor<byte[], byte[], byte[], byte[]> {
        private ProcessorContext<byte[], byte[]> context;
        protected KeyValueStore<Long, byte[]> pending;

        @Override
        public void init(ProcessorContext<byte[], byte[]> given) {
            context = given;
            pending = given.getStateStore(PENDING);
        }

        protected RecordMetadata position() {
            return context.recordMetadata().orElseThrow();
        }

        protected void send(byte[] half, long offset) {
            context.forward(finalOf(half, position().partition(), offset));
            finals.increment();
        }
    }

    private static final class OnHalf extends Resolving {
        @Override
        public void process(Record<byte[], byte[]> half) {
            records.increment();
            long offset = position().offset();
            byte[] op = pending.get(offset);
            if (op == null) {
                pending.put(offset, packed(half));
                return;
            }
            pending.delete(offset);
            if (isCommit(op)) {
                send(packed(half), offset);
            }
        }
    }

    private static final class OnOp extends Resolving {
        @Override
        public void process(Record<byte[], byte[]> op) {
            Header state = op.headers().lastHeader("COMMIT_OR_ROLLBACK");
            if (state == null) {
                return; // the job's start record, which means nothing
            }
            records.increment();
            long offset = Long.parseLong(new String(op.value(), StandardCharsets.UTF_8));
            byte[] half = pending.get(offset);
            if (half == null) {
                pending.put(offset, state.value());
                return;
            }
            pending.delete(offset);
            if (isCommit(state.value())) {
                send(half, offset);
            }
        }
    }

    private static boolean isCommit(byte[] state) {
        return COMMIT.equals(new String(state, StandardCharsets.UTF_8));
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
            size += 4 + (part == null ? 0 : part.length);
        }
        ByteBuffer into = ByteBuffer.allocate(size).putLong(half.timestamp()).putInt(parts.size());
        for (byte[] part : parts) {
            into.putInt(part == null ? -1 : part.length);
            if (part != null) {
                into.put(part);
            }
        }
        return into.put(half.value()).array();
    }

    /** The final message of a half kept in this form. */
    private static Record<byte[], byte[]> finalOf(byte[] half, int partition, long offset) {
        ByteBuffer from = ByteBuffer.wrap(half);
        long timestamp = from.getLong();
        int headers = (from.getInt() - 1) / 2;
        byte[] key = part(from);
        Headers kept = new RecordHeaders();
        for (int at = 0; at < headers; at++) {
            String name = new String(part(from), StandardCharsets.UTF_8);
            byte[] value = part(from);
            if (KEPT.contains(name)) {
                kept.add(name, value);
            }
        }
        kept.add("TRAN_PREPARED_QUEUE_OFFSET", digits(offset));
        kept.add("TRAN_HALF_QUEUE_ID", digits(partition));
        byte[] body = new byte[from.remaining()];
        from.get(body);
        return new Record<>(key, body, timestamp, kept);
    }

    private static byte[] part(ByteBuffer from) {
        int size = from.getInt();
        if (size < 0) {
            return null;
        }
        byte[] found = new byte[size];
        from.get(found);
        return found;
    }

    private static byte[] digits(long number) {
        return Long.toString(number).getBytes(StandardCharsets.UTF_8);
    }
}
