package io.checkback.client;

import static org.apache.kafka.common.config.ConfigDef.Importance.HIGH;
import static org.apache.kafka.common.config.ConfigDef.Importance.LOW;
import static org.apache.kafka.common.config.ConfigDef.Importance.MEDIUM;

import io.checkback.client.internal.records.RecordSigner;
import io.checkback.client.internal.records.TopicNames;
import io.checkback.client.internal.records.Validation;
import java.util.Map;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Range;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.apache.kafka.common.config.ConfigDef.ValidString;
import org.apache.kafka.common.config.ConfigException;

/**
 * Settings of a producer. All others in the same map go to the Kafka clients as they are: security, client
 * ids, {@code metric.reporters}. What the wire format needs is set over them.
 */
public final class CheckbackConfig extends AbstractConfig {
    public static final String BOOTSTRAP_SERVERS = "bootstrap.servers";
    public static final String GROUP = "checkback.group";
    public static final String TOPIC_PREFIX = "checkback.topic.prefix";
    public static final String SEND_TIMEOUT_MS = "checkback.send.timeout.ms";
    public static final String SEND_RETRIES = "checkback.send.retries";
    public static final String MESSAGE_BYTES_MAX = "checkback.message.bytes.max";
    public static final String CHECK_THREADS = "checkback.check.threads";
    public static final String CHECK_QUEUE_SIZE = "checkback.check.queue.size";
    public static final String CHECK_SESSION_TIMEOUT_MS = "checkback.check.session.timeout.ms";
    public static final String INSTANCE_NAME = "checkback.instance.name";
    public static final String START_TIMEOUT_MS = "checkback.start.timeout.ms";
    public static final String SHUTDOWN_TIMEOUT_MS = "checkback.shutdown.timeout.ms";
    public static final String ACCESS_KEY = "checkback.access.key";
    public static final String SECRET_KEY = "checkback.secret.key";
    public static final String SIGNATURE_ALGORITHM = "checkback.signature.algorithm";
    public static final String BORN_HOST = "checkback.born.host";

    /** Every setting of Checkback's own, with its default and its meaning. */
    public static final ConfigDef DEFINITION = new ConfigDef()
            .define(BOOTSTRAP_SERVERS, Type.LIST, HIGH, "Kafka brokers, host:port.")
            .define(GROUP, Type.STRING, HIGH, "The producer group: its processes answer each other's checks.")
            .define(TOPIC_PREFIX, Type.STRING, "", HIGH, "Stands before the names of Checkback's topics.")
            .define(SEND_TIMEOUT_MS, Type.INT, 3_000, Range.between(10, 300_000), MEDIUM,
                    "Time for all tries of one half message together, in milliseconds.")
            .define(SEND_RETRIES, Type.INT, 2, Range.atLeast(0), MEDIUM, "Tries of a half after the first one.")
            .define(MESSAGE_BYTES_MAX, Type.INT, 4_194_304, Range.between(1, 1_000_000_000 - 65_536), MEDIUM,
                    "The largest body, in bytes.")
            .define(CHECK_THREADS, Type.INT, 1, Range.atLeast(1), MEDIUM, "Threads that answer checks.")
            .define(CHECK_QUEUE_SIZE, Type.INT, 2_000, Range.atLeast(1), LOW,
                    "Checks that wait for a thread; reading pauses when there are as many.")
            .define(CHECK_SESSION_TIMEOUT_MS, Type.INT, 10_000, Range.between(1, 300_000), LOW,
                    "Time after which other processes take over the checks of a dead one, in milliseconds.")
            .define(INSTANCE_NAME, Type.STRING, "", MEDIUM,
                    "A name that the process keeps over restarts (Kafka's static membership,"
                            + " KIP-345): its successor takes over its checks at once. Empty for none.")
            .define(START_TIMEOUT_MS, Type.INT, 10_000, Range.atLeast(1), LOW,
                    "How long a start waits for each answer of the brokers, in milliseconds.")
            .define(SHUTDOWN_TIMEOUT_MS, Type.INT, 10_000, Range.atLeast(0), LOW,
                    "How long a shutdown waits for what is running, in milliseconds.")
            .define(ACCESS_KEY, Type.STRING, "", MEDIUM, "The account that signs records; empty for none.")
            .define(SECRET_KEY, Type.PASSWORD, "", MEDIUM, "The account's secret.")
            .define(SIGNATURE_ALGORITHM, Type.STRING, "HmacSHA256",
                    ValidString.in(RecordSigner.ALGORITHMS.toArray(String[]::new)), LOW,
                    "The hash algorithm of the account's signatures.")
            .define(BORN_HOST, Type.STRING, "", LOW, "The address that signed records state; empty for none.");

    /**
     * @param settings Checkback's and Kafka's, by their names
     * @throws ConfigException a setting is missing, out of bounds or contradicts another
     */
    public CheckbackConfig(Map<String, ?> settings) {
        super(DEFINITION, settings, false);
        Validation.requireGroup(group());
        String prefix = getString(TOPIC_PREFIX);
        if (!prefix.isEmpty() && !TopicNames.isKafkaName(topics().check(group()))) {
            throw new ConfigException(TOPIC_PREFIX, prefix, "Kafka takes no topic names with it");
        }
        if (getString(ACCESS_KEY).isEmpty() != getPassword(SECRET_KEY).value().isEmpty()) {
            throw new ConfigException("Only one of " + ACCESS_KEY + " and " + SECRET_KEY
                    + " is set. Set both, or neither for records without a signature.");
        }
        if (originals().containsKey("transactional.id")) {
            throw new ConfigException("transactional.id is set, but the client sends in no Kafka transaction.");
        }
    }

    /** Returns the producer group. */
    public String group() {
        return getString(GROUP);
    }

    /** Returns the brokers as they were given, separated by commas. */
    public String bootstrapServers() {
        return String.join(",", getList(BOOTSTRAP_SERVERS));
    }

    /** Returns the names of Checkback's topics. */
    public TopicNames topics() {
        return new TopicNames(getString(TOPIC_PREFIX));
    }
}
