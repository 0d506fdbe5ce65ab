import java.time.Duration;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;

/**
 * Prints the records of topics as another client of Kafka reads them.
 *
 * <p>It ends a second after it has read as many as it was asked for, so that it prints what is too
 * much. Arguments: consumer, share or streams; the brokers; the group; how many; the topics.
 */
public final class OtherReaders {
    private static final long READ_S = 60;
    private static CountDownLatch missing;
    private static boolean wasLast;

    public static void main(String[] arguments) throws Exception {
        var settings = new Properties();
        settings.put("bootstrap.servers", arguments[1]);
        settings.put("group.id", arguments[2]);
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        missing = new CountDownLatch(Integer.parseInt(arguments[3]));
        List<String> topics = Arrays.asList(arguments).subList(4, arguments.length);
        switch (arguments[0]) {
            case "consumer" -> consume(settings, topics);
            case "share" -> share(settings, topics);
            default -> stream(settings, topics);
        }
        System.exit(missing.getCount() == 0 ? 0 : 1);
    }

    private static void consume(Properties settings, List<String> topics) {
        settings.put("isolation.level", "read_committed");
        settings.put("auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<byte[], byte[]>(settings)) {
            consumer.subscribe(topics);
            for (long until = until(); isReading(until); ) {
                consumer.poll(Duration.ofSeconds(1))
                        .forEach(one -> print(one.topic(), one.key(), one.value(), one.headers()));
            }
        }
    }

    /** Its isolation is a setting of the group, on the brokers. */
    private static void share(Properties settings, List<String> topics) {
        try (var consumer = new KafkaShareConsumer<byte[], byte[]>(settings)) {
            consumer.subscribe(topics);
            for (long until = until(); isReading(until); ) {
                consumer.poll(Duration.ofSeconds(1))
                        .forEach(one -> print(one.topic(), one.key(), one.value(), one.headers()));
            }
        }
    }

    private static void stream(Properties settings, List<String> topics) throws Exception {
        settings.put("application.id", settings.remove("group.id"));
        settings.put("auto.offset.reset", "earliest");
        settings.put("processing.guarantee", "exactly_once_v2");
        var builder = new StreamsBuilder();
        var bytes = Serdes.ByteArray().getClass();
        settings.put("default.key.serde", bytes);
        settings.put("default.value.serde", bytes);
        builder.<byte[], byte[]>stream(topics).process(Printer::new);
        try (var streams = new KafkaStreams(builder.build(), settings)) {
            streams.start();
            missing.await(READ_S, TimeUnit.SECONDS);
            Thread.sleep(1_000);
        }
    }

    private static final class Printer extends ContextualProcessor<byte[], byte[], Void, Void> {
        @Override
        public void process(Record<byte[], byte[]> one) {
            String topic = context().recordMetadata().orElseThrow().topic();
            print(topic, one.key(), one.value(), one.headers());
        }
    }

    private static long until() {
        return System.nanoTime() + Duration.ofSeconds(READ_S).toNanos();
    }

    private static boolean isReading(long until) {
        boolean isLast = wasLast;
        wasLast = missing.getCount() == 0;
        return !isLast && System.nanoTime() < until;
    }

    private static synchronized void print(String topic, byte[] key, byte[] value, Headers headers) {
        var line = new StringBuilder(topic + " " + text(key) + " " + text(value));
        headers.forEach(one -> line.append(" " + one.key() + "=" + text(one.value())));
        System.out.println(line);
        missing.countDown();
    }

    private static String text(byte[] bytes) {
        return bytes == null ? "-" : "x" + Base64.getEncoder().encodeToString(bytes);
    }
}
