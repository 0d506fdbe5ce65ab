package io.checkback.client.internal.records;

import java.util.List;
import org.apache.kafka.common.header.Header;

/**
 * A message from the application, before its headers are made.
 *
 * @param topic the real topic
 * @param key the record's key, null for none
 * @param body the body, null for a tombstone
 * @param keys RocketMQ's KEYS, empty for none
 * @param tags RocketMQ's TAGS, empty for none
 * @param properties the application's headers, in order
 * @param queueId partition of the real topic, null lets the key decide
 */
public record OutgoingMessage(
        String topic,
        byte[] key,
        byte[] body,
        String keys,
        String tags,
        List<Header> properties,
        Integer queueId) {}
