package io.checkback.client;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.checkback.client.internal.records.TopicNames;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** One broker for all tests, which `checkback broker start` starts; each test has a topic prefix of its own. */
public final class TestBroker {
    private static final Path CHECKBACK =
            Path.of(System.getProperty("checkback", "../../.venv/bin/checkback")).toAbsolutePath();
    private static final TestBroker SHARED = start();

    private final String bootstrapServers;
    private final long pid;

    private TestBroker(String bootstrapServers, long pid) {
        this.bootstrapServers = bootstrapServers;
        this.pid = pid;
    }

    public static TestBroker shared() {
        return SHARED;
    }

    private static TestBroker start() {
        try {
            Path folder = Files.createTempDirectory("checkback-java-broker");
            String said = run(List.of("broker", "start", "--data-dir", folder.toString(), "--output", "json"));
            Runtime.getRuntime().addShutdownHook(new Thread(() ->
                    run(List.of("broker", "stop", "--data-dir", folder.toString()))));
            return new TestBroker(field(said, "bootstrap_servers"), Long.parseLong(field(said, "pid")));
        } catch (IOException error) {
            throw new AssertionError(error);
        }
    }

    private static String field(String json, String name) {
        Matcher found = Pattern.compile("\"" + name + "\": *\"?([^\",}]+)").matcher(json);
        if (!found.find()) {
            throw new AssertionError(json);
        }
        return found.group(1);
    }

    private static String run(List<String> arguments) {
        List<String> command = new ArrayList<>(List.of(CHECKBACK.toString()));
        command.addAll(arguments);
        try {
            Process process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
            String said = new String(process.getInputStream().readAllBytes(), UTF_8);
            if (process.waitFor() != 0) {
                throw new AssertionError(command + ": " + said);
            }
            return said;
        } catch (IOException | InterruptedException error) {
            throw new AssertionError(error);
        }
    }

    public String bootstrapServers() {
        return bootstrapServers;
    }

    /** Creates the topics that a producer needs under a new prefix, and real topics; returns the prefix. */
    public String topics(String... real) {
        String prefix = "t" + UUID.randomUUID().toString().substring(0, 8) + ".";
        TopicNames names = new TopicNames(prefix);
        Map<String, String> timed = Map.of("message.timestamp.type", "LogAppendTime", "max.message.bytes", "4259840");
        List<NewTopic> topics = new ArrayList<>(List.of(
                new NewTopic(names.half(), 2, (short) 1).configs(timed),
                new NewTopic(names.op(), 2, (short) 1).configs(timed),
                new NewTopic(names.status(), 1, (short) 1)));
        for (String topic : real) {
            topics.add(new NewTopic(prefix + topic, 2, (short) 1));
        }
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrapServers))) {
            admin.createTopics(topics).all().get();
            List<String> created = topics.stream().map(NewTopic::name).toList();
            // A broker lists a new topic only after the controller's answer.
            eventually(() -> admin.listTopics().names().get(), listed -> listed.containsAll(created));
        } catch (Exception error) {
            throw new AssertionError(error);
        }
        return prefix;
    }

    /** Creates Checkback's topics without a prefix, as operators do. */
    public void plainTopics() {
        run(List.of("topics", "create", "--bootstrap-servers", bootstrapServers));
    }

    /** Returns the settings of a producer. */
    public Map<String, Object> settings(String prefix, String group) {
        Map<String, Object> settings = new HashMap<>();
        settings.put(CheckbackConfig.BOOTSTRAP_SERVERS, bootstrapServers);
        settings.put(CheckbackConfig.TOPIC_PREFIX, prefix);
        settings.put(CheckbackConfig.GROUP, group);
        return settings;
    }

    /** Returns what stands on a topic now. */
    public List<ConsumerRecord<byte[], byte[]>> read(String topic) {
        Map<String, Object> settings = Map.of(
                ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrapServers,
                ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG, 50);
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> places = consumer.partitionsFor(topic).stream()
                    .map(one -> new TopicPartition(topic, one.partition()))
                    .toList();
            consumer.assign(places);
            consumer.seekToBeginning(places);
            Map<TopicPartition, Long> ends = consumer.endOffsets(places);
            List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
            while (places.stream().anyMatch(one -> consumer.position(one) < ends.get(one))) {
                consumer.poll(Duration.ofMillis(100)).forEach(found::add);
            }
            return found;
        }
    }

    /** Writes a record. */
    public RecordMetadata write(String topic, String key, String value, List<Header> headers) {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrapServers);
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            byte[] keyBytes = key == null ? null : key.getBytes(UTF_8);
            return producer.send(new ProducerRecord<>(topic, 0, keyBytes, value.getBytes(UTF_8), headers)).get();
        } catch (InterruptedException | ExecutionException error) {
            throw new AssertionError(error);
        }
    }

    /** Runs something while the broker's process stands still. */
    public void whileItStandsStill(Runnable work) {
        signal("STOP");
        try {
            work.run();
        } finally {
            signal("CONT");
        }
    }

    private void signal(String name) {
        try {
            new ProcessBuilder("kill", "-" + name, Long.toString(pid)).inheritIO().start().waitFor();
        } catch (IOException | InterruptedException error) {
            throw new AssertionError(error);
        }
    }

    /** Waits until something is as it should be, at most for a minute. */
    public static <T> T eventually(Callable<T> look, java.util.function.Predicate<T> holds) throws Exception {
        long deadline = System.nanoTime() + Duration.ofMinutes(1).toNanos();
        T found = look.call();
        while (!holds.test(found)) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("still " + found);
            }
            Thread.sleep(50);
            found = look.call();
        }
        return found;
    }

    /** Returns the texts of a header in records. */
    public static List<String> texts(List<ConsumerRecord<byte[], byte[]>> records, String name) {
        return records.stream()
                .map(one -> one.headers().lastHeader(name))
                .map(one -> one == null ? null : new String(one.value(), UTF_8))
                .toList();
    }

    /** Returns the values of records as texts, sorted. */
    public static List<String> bodies(List<ConsumerRecord<byte[], byte[]>> records) {
        String[] bodies = records.stream().map(one -> new String(one.value(), UTF_8)).toArray(String[]::new);
        Arrays.sort(bodies);
        return List.of(bodies);
    }
}
