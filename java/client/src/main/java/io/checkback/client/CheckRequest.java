package io.checkback.client;

import java.util.List;
import org.apache.kafka.common.header.Header;

/**
 * A check: the half message again, and where it stands.
 *
 * @param transactionId UNIQ_KEY: what the local transaction was run with
 * @param topic the real topic
 * @param key the record's key, null for none
 * @param value the record's value, null for a tombstone
 * @param headers the application's own headers, in their order
 * @param keys RocketMQ's KEYS, empty for none
 * @param tags RocketMQ's TAGS, empty for none
 * @param queueId the partition of the real topic that was asked for, null for none
 * @param group the producer group that is asked
 * @param halfPartition partition of the half topic
 * @param halfOffset offset of the half message there
 * @param checkTimes number of this check of the half message, from 1
 * @param requestedAtMs when the request was written, milliseconds since 1970, by the brokers' clock
 * @param checkIntervalMs time until the next request, in milliseconds; null where the request has none
 */
public record CheckRequest(
        String transactionId,
        String topic,
        byte[] key,
        byte[] value,
        List<Header> headers,
        String keys,
        String tags,
        Integer queueId,
        String group,
        int halfPartition,
        long halfOffset,
        int checkTimes,
        long requestedAtMs,
        Long checkIntervalMs) {

    /** Returns the transaction id. */
    public String id() {
        return transactionId;
    }
}
