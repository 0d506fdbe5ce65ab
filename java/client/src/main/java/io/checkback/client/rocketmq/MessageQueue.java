package io.checkback.client.rocketmq;

/**
 * A queue in RocketMQ's words: one partition of a topic.
 *
 * @param topic the topic
 * @param queueId the partition's number
 */
public record MessageQueue(String topic, int queueId) {
    /** Returns the topic. */
    public String getTopic() {
        return topic;
    }

    /** Returns the partition's number. */
    public int getQueueId() {
        return queueId;
    }
}
