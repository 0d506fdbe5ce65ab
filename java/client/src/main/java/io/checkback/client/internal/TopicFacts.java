package io.checkback.client.internal;

import io.checkback.client.BrokerException;
import io.checkback.client.CheckbackConfig;
import io.checkback.client.InvalidMessageException;
import io.checkback.client.TopicNotFoundException;
import io.checkback.client.internal.records.TopicNames;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What the brokers say of topics: whether they exist, and how large a record may be. The first send to a
 * topic asks; later sends use the answer, which is renewed in the background. Threads may share it.
 */
public final class TopicFacts implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(TopicFacts.class);
    private static final long KEPT_NANOS = TimeUnit.SECONDS.toNanos(60);
    private static final long SECOND_LOOK_MS = 300;
    private static final int NO_LIMIT = Integer.MAX_VALUE;
    private static final int PREFIXES_NAMED_MAX = 5;

    private final Admin admin;
    private volatile long timeoutMs;
    private final String bootstrapServers;
    private final Map<String, Limit> limits = new ConcurrentHashMap<>();
    private final Set<String> asked = ConcurrentHashMap.newKeySet();
    private final ExecutorService background = Executors.newSingleThreadExecutor(work -> {
        Thread thread = new Thread(work, "checkback-topics");
        thread.setDaemon(true);
        return thread;
    });

    private record Limit(int bytes, long untilNanos) {}

    public TopicFacts(Admin admin, CheckbackConfig config) {
        this.admin = admin;
        this.timeoutMs = config.getInt(CheckbackConfig.START_TIMEOUT_MS);
        this.bootstrapServers = config.bootstrapServers();
    }

    /** Says how long the brokers may take for each answer from now on, in milliseconds. */
    public void allow(long answerMs) {
        timeoutMs = answerMs;
    }

    /**
     * Refuses a message that makes a larger record than its topic takes, or has no topic. A topic that
     * can't be asked about (no right to describe it, no answer) counts as one without a limit.
     *
     * @throws TopicNotFoundException there is no such topic
     * @throws InvalidMessageException names the topic's limit
     */
    public void requireRoom(String topic, int recordBytes) {
        Limit limit = limits.get(topic);
        if (limit == null) {
            limit = learn(topic);
        } else if (limit.untilNanos - System.nanoTime() < 0 && asked.add(topic)) {
            background.execute(() -> {
                try {
                    learn(topic);
                } catch (TopicNotFoundException error) {
                    LOG.info("The topic {} is gone", topic);
                } finally {
                    asked.remove(topic);
                }
            });
        }
        if (recordBytes > limit.bytes) {
            throw new InvalidMessageException("The message makes a record of up to " + recordBytes + " bytes; "
                    + topic + " takes at most " + limit.bytes
                    + " (max.message.bytes). Make it smaller, or raise the topic's limit.");
        }
    }

    private Limit learn(String topic) {
        int bytes = NO_LIMIT;
        try {
            // A topic that was created a moment ago is not known to every broker yet.
            if (partitions(topic).isEmpty() && lookAgain(topic).isEmpty()) {
                limits.remove(topic);
                throw new TopicNotFoundException(topic);
            }
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            String value = await(admin.describeConfigs(List.of(resource)).values().get(resource))
                    .get("max.message.bytes")
                    .value();
            bytes = Integer.parseInt(value);
        } catch (BrokerException error) {
            if (error instanceof TopicNotFoundException) {
                throw error;
            }
            LOG.info("The limit of the topic {} is not known: {}", topic, error.getMessage());
        }
        Limit limit = new Limit(bytes, System.nanoTime() + KEPT_NANOS);
        limits.put(topic, limit);
        return limit;
    }

    private Optional<Integer> lookAgain(String topic) {
        try {
            Thread.sleep(SECOND_LOOK_MS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
        return partitions(topic);
    }

    /**
     * Returns a topic's number of partitions, empty where it does not exist.
     *
     * @throws BrokerException Kafka does not answer, or this user may not describe the topic
     */
    public Optional<Integer> partitions(String topic) {
        try {
            return Optional.of(awaitRaw(admin.describeTopics(List.of(topic)).topicNameValues().get(topic))
                    .partitions()
                    .size());
        } catch (ExecutionException error) {
            if (error.getCause() instanceof UnknownTopicOrPartitionException) {
                return Optional.empty();
            }
            throw unreachable("The topic " + topic + " can't be seen", error.getCause());
        }
    }

    /**
     * Requires that half and op topic exist and have the same number of partitions.
     *
     * @throws BrokerException says what is missing
     */
    public void requireHalfAndOp(TopicNames topics) {
        int half = requirePartitions(topics.half());
        int op = requirePartitions(topics.op());
        if (half != op) {
            throw new BrokerException(topics.half() + " has " + half + " partitions and " + topics.op() + " has "
                    + op + ". Both need the same number: run `checkback topics create` and see what differs.", null);
        }
    }

    private int requirePartitions(String topic) {
        return partitions(topic)
                .orElseThrow(() -> new BrokerException(
                        "The topic " + topic + " does not exist. " + otherPrefixes(), null));
    }

    private String otherPrefixes() {
        Set<String> names = await(admin.listTopics().names());
        List<String> prefixes = names.stream()
                .filter(name -> name.endsWith(TopicNames.HALF))
                .map(name -> "'" + name.substring(0, name.length() - TopicNames.HALF.length()) + "'")
                .sorted()
                .limit(PREFIXES_NAMED_MAX)
                .toList();
        return prefixes.isEmpty()
                ? "Run `checkback topics create`, and check the topic prefix."
                : "Check the topic prefix: there are topics of the prefix " + String.join(", ", prefixes)
                        + ". For a new one run `checkback topics create`.";
    }

    /**
     * Creates a group's check topic unless it exists; only creating needs a right to create.
     *
     * @throws BrokerException Kafka can't be reached, or refused
     */
    public void createCheckTopic(String name, int messageBytesMax) {
        if (partitions(name).isPresent()) {
            return;
        }
        Map<String, String> configs = Map.of(
                "cleanup.policy", "delete",
                "retention.ms", "86400000",
                "retention.bytes", "-1",
                "max.message.bytes", Integer.toString(messageBytesMax + 2 * KafkaClients.HEADER_ROOM_BYTES),
                "message.timestamp.type", "LogAppendTime",
                "message.timestamp.after.max.ms", "3600000");
        NewTopic topic = new NewTopic(name, Optional.empty(), Optional.empty()).configs(configs);
        try {
            awaitRaw(admin.createTopics(List.of(topic)).values().get(name));
            LOG.info("Created the check topic {}", name);
        } catch (ExecutionException error) {
            if (!(error.getCause() instanceof TopicExistsException)) {
                throw unreachable("The topic " + name + " can't be created", error.getCause());
            }
        }
    }

    private <T> T await(KafkaFuture<T> future) {
        try {
            return awaitRaw(future);
        } catch (ExecutionException error) {
            throw unreachable("Kafka at " + bootstrapServers + " does not answer", error.getCause());
        }
    }

    private <T> T awaitRaw(KafkaFuture<T> future) throws ExecutionException {
        try {
            return future.get(timeoutMs, TimeUnit.MILLISECONDS);
        } catch (TimeoutException error) {
            throw unreachable("Kafka at " + bootstrapServers + " does not answer", error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw unreachable("The thread was interrupted while it waited for Kafka", error);
        }
    }

    private static BrokerException unreachable(String what, Throwable cause) {
        return new BrokerException(
                what + ": " + cause.getMessage() + ". Check the brokers, the network, security settings and rights.",
                cause);
    }

    @Override
    public void close() {
        background.shutdownNow();
        admin.close(java.time.Duration.ofSeconds(1));
    }
}
