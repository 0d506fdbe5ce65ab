package io.checkback.client.rocketmq;

/** RocketMQ's send statuses. */
public enum SendStatus {
    /** The leader and its replicas have the message. */
    SEND_OK,
    /** Never returned: Kafka does not flush before it answers. */
    FLUSH_DISK_TIMEOUT,
    /** Never returned for a half: Kafka's producer repeats it until its time is over. */
    FLUSH_SLAVE_TIMEOUT,
    /** The leader has the half, too few replicas do; the local transaction did not run. */
    SLAVE_NOT_AVAILABLE
}
