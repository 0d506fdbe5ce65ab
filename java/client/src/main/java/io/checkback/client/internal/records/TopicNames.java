package io.checkback.client.internal.records;

import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;

/**
 * Names of Checkback's topics under one prefix.
 *
 * @param prefix put before each name as it is
 */
public record TopicNames(String prefix) {
    public static final String HALF = "RMQ_SYS_TRANS_HALF_TOPIC";
    private static final Set<String> SYSTEM = Set.of(
            "BenchmarkTest", "CHECKPOINT_TOPIC", "OFFSET_MOVED_EVENT", "SCHEDULE_TOPIC_XXXX",
            "SELF_TEST_TOPIC", "TBW102", "TRANS_CHECK_MAX_TIME_TOPIC");
    private static final List<String> SYSTEM_PREFIXES = List.of("RMQ_SYS_", "rmq_sys_", "__");
    private static final Pattern KAFKA_NAME = Pattern.compile("[a-zA-Z0-9._-]{1,249}");

    /** Returns the topic of half messages. */
    public String half() {
        return prefix + HALF;
    }

    /** Returns the topic of ops. */
    public String op() {
        return prefix + "RMQ_SYS_TRANS_OP_HALF_TOPIC";
    }

    /** Returns the topic of what the pipeline announces to clients. */
    public String status() {
        return prefix + "RMQ_SYS_TRANS_STATUS_TOPIC";
    }

    /** Returns the topic of a group's check requests, which is also its consumer group. */
    public String check(String group) {
        return prefix + "RMQ_SYS_TRANS_CHECK_" + group;
    }

    /** Tells whether no application may send to a topic. */
    public boolean isSystem(String topic) {
        String bare = topic.startsWith(prefix) ? topic.substring(prefix.length()) : topic;
        return isSystemName(topic) || isSystemName(bare);
    }

    private static boolean isSystemName(String name) {
        return SYSTEM.contains(name) || SYSTEM_PREFIXES.stream().anyMatch(name::startsWith);
    }

    /** Tells whether Kafka takes a name for a topic. */
    public static boolean isKafkaName(String name) {
        return KAFKA_NAME.matcher(name).matches() && !name.equals(".") && !name.equals("..");
    }
}
