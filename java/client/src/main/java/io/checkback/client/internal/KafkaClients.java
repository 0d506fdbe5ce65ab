package io.checkback.client.internal;

import io.checkback.client.CheckbackConfig;
import io.checkback.client.internal.checks.CheckService;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.CommonClientConfigs;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Opens Kafka clients with the settings that the wire format needs and those that the user gave. */
public final class KafkaClients {
    /** Room for the headers of a half message, beside its body. */
    public static final int HEADER_ROOM_BYTES = 65_536;

    private static final double SHARE_OF_KAFKA = 0.9;
    private static final double BROKERS_SHARE = 0.7;
    private static final int CHECK_METADATA_AGE_MAX_MS = 10_000;

    private final CheckbackConfig config;
    private final String clientId;
    private final int budgetMs;

    public KafkaClients(CheckbackConfig config, String clientId) {
        this.config = config;
        this.clientId = clientId;
        this.budgetMs = config.getInt(CheckbackConfig.SEND_TIMEOUT_MS);
    }

    /** Opens a producer that stores a record at most once on one partition. */
    public Producer<byte[], byte[]> halfProducer() {
        return producer(Map.of(
                ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, true,
                // A broker answers one request of a connection after the other. What comes while one is under
                // way goes together in the next.
                ProducerConfig.MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION, 1,
                // Few retries: only after the last one the error shows that a partition has too few replicas.
                ProducerConfig.RETRIES_CONFIG, 3,
                ProducerConfig.LINGER_MS_CONFIG, 0));
    }

    /** Opens a producer that repeats until the budget is over; an op may be stored twice. */
    public Producer<byte[], byte[]> opProducer() {
        return producer(Map.of(
                ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, false,
                ProducerConfig.BATCH_SIZE_CONFIG, 65_536,
                ProducerConfig.LINGER_MS_CONFIG, Math.min(5, budgetMs / 10)));
    }

    private Producer<byte[], byte[]> producer(Map<String, Object> special) {
        Map<String, Object> settings = own(config, ProducerConfig.configNames());
        settings.putAll(common());
        // The wire format says which half partition a key has.
        settings.remove(ProducerConfig.PARTITIONER_CLASS_CONFIG);
        settings.put(ProducerConfig.PARTITIONER_IGNORE_KEYS_CONFIG, false);
        settings.put(ProducerConfig.ACKS_CONFIG, "all");
        // Kafka's own tries end before the caller's budget: its error says more than the end of time.
        settings.put(ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG, (int) (budgetMs * SHARE_OF_KAFKA));
        settings.put(ProducerConfig.REQUEST_TIMEOUT_MS_CONFIG, (int) (budgetMs * BROKERS_SHARE));
        settings.put(ProducerConfig.MAX_BLOCK_MS_CONFIG, (long) (budgetMs * SHARE_OF_KAFKA));
        settings.put(ProducerConfig.RECONNECT_BACKOFF_MS_CONFIG, Math.min(100L, budgetMs / 8));
        settings.put(ProducerConfig.RECONNECT_BACKOFF_MAX_MS_CONFIG, Math.min(1_000L, Math.max(10, budgetMs / 4)));
        settings.put(ProducerConfig.RETRY_BACKOFF_MS_CONFIG, 50L);
        settings.put(ProducerConfig.RETRY_BACKOFF_MAX_MS_CONFIG, 200L);
        settings.put(ProducerConfig.METADATA_MAX_AGE_CONFIG, 10_000L);
        // "rebootstrap" forgets the brokers when none answers, and finds a cluster that is back too late.
        settings.put(CommonClientConfigs.METADATA_RECOVERY_STRATEGY_CONFIG, "none");
        settings.put(
                ProducerConfig.MAX_REQUEST_SIZE_CONFIG,
                config.getInt(CheckbackConfig.MESSAGE_BYTES_MAX) + HEADER_ROOM_BYTES);
        settings.putAll(special);
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /**
     * Opens a consumer of check requests; it commits only on request.
     *
     * @param checkTopic the group's, which is also the name of its consumer group
     * @param instance names the process in its group after a restart, empty for none
     */
    public Consumer<byte[], byte[]> checkConsumer(String checkTopic, String instance) {
        int sessionMs = config.getInt(CheckbackConfig.CHECK_SESSION_TIMEOUT_MS);
        Map<String, Object> settings = consumerSettings("read_committed");
        settings.put(ConsumerConfig.GROUP_ID_CONFIG, checkTopic);
        settings.put(ConsumerConfig.GROUP_PROTOCOL_CONFIG, "classic");
        settings.put(
                ConsumerConfig.PARTITION_ASSIGNMENT_STRATEGY_CONFIG,
                "org.apache.kafka.clients.consumer.RangeAssignor");
        settings.put(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, sessionMs);
        settings.put(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, Math.max(1, sessionMs / 3));
        settings.put(ConsumerConfig.METADATA_MAX_AGE_CONFIG, CHECK_METADATA_AGE_MAX_MS);
        settings.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, CheckService.atOnceMax(config));
        settings.put(ConsumerConfig.DEFAULT_API_TIMEOUT_MS_CONFIG, 10_000);
        settings.put(ConsumerConfig.REQUEST_TIMEOUT_MS_CONFIG, 10_000);
        if (!instance.isEmpty()) {
            settings.put(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG, instance);
        }
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** Opens a consumer of the status topic; it joins no group and commits nothing. */
    public Consumer<byte[], byte[]> statusConsumer() {
        // The pipeline writes in no transaction; an open transaction of another writer must not hide a status.
        Map<String, Object> settings = consumerSettings("read_uncommitted");
        settings.remove(ConsumerConfig.GROUP_ID_CONFIG);
        int timeoutMs = config.getInt(CheckbackConfig.START_TIMEOUT_MS);
        settings.put(ConsumerConfig.DEFAULT_API_TIMEOUT_MS_CONFIG, timeoutMs);
        settings.put(ConsumerConfig.REQUEST_TIMEOUT_MS_CONFIG, timeoutMs);
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private Map<String, Object> consumerSettings(String isolation) {
        Map<String, Object> settings = own(config, ConsumerConfig.configNames());
        settings.putAll(common());
        settings.remove(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG);
        settings.remove(ConsumerConfig.INTERCEPTOR_CLASSES_CONFIG); // the same name as the producers'
        settings.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        settings.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, isolation);
        settings.put(ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG, false);
        settings.put(ConsumerConfig.RECONNECT_BACKOFF_MAX_MS_CONFIG, 1_000L);
        return settings;
    }

    /** Opens an admin client. */
    public Admin admin() {
        Map<String, Object> settings = own(config, AdminClientConfig.configNames());
        settings.putAll(common());
        int timeoutMs = config.getInt(CheckbackConfig.START_TIMEOUT_MS);
        settings.put(AdminClientConfig.DEFAULT_API_TIMEOUT_MS_CONFIG, timeoutMs);
        settings.put(AdminClientConfig.REQUEST_TIMEOUT_MS_CONFIG, timeoutMs);
        return Admin.create(settings);
    }

    private Map<String, Object> common() {
        return Map.of("bootstrap.servers", config.bootstrapServers(), "client.id", clientId);
    }

    /** Returns the user's settings for one kind of client: its own, and those that no Kafka client knows. */
    public static Map<String, Object> own(CheckbackConfig config, Set<String> names) {
        Set<String> ofOthers = new HashSet<>(ProducerConfig.configNames());
        ofOthers.addAll(ConsumerConfig.configNames());
        ofOthers.addAll(AdminClientConfig.configNames());
        ofOthers.removeAll(names);
        Map<String, Object> settings = new HashMap<>(config.originals());
        settings.keySet().removeIf(name -> ofOthers.contains(name) || name.startsWith("checkback."));
        return settings;
    }
}
