package io.checkback.client.rocketmq;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.checkback.client.internal.records.OutgoingMessage;
import io.checkback.client.internal.records.PropertyNames;
import io.checkback.client.internal.records.Validation;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

/** A message for a topic, with RocketMQ's names. The producer adds nothing to it but the transaction id. */
public class Message {
    private String topic;
    private String tags = "";
    private String keys = "";
    private byte[] body;
    private byte[] key;
    private Integer queueId;
    private String transactionId = "";
    private final Map<String, byte[]> properties = new LinkedHashMap<>();

    /** Makes an empty message; topic and body have to be set. */
    public Message() {}

    /**
     * @param topic where the message goes once it is committed
     * @param body passed on byte for byte; null is a tombstone, which needs a key
     */
    public Message(String topic, byte[] body) {
        this(topic, "", "", body);
    }

    /**
     * @param topic where the message goes once it is committed
     * @param tags RocketMQ's TAGS
     * @param body passed on byte for byte; null is a tombstone, which needs a key
     */
    public Message(String topic, String tags, byte[] body) {
        this(topic, tags, "", body);
    }

    /**
     * @param topic where the message goes once it is committed
     * @param tags RocketMQ's TAGS, empty for none
     * @param keys RocketMQ's KEYS, one or several with a space between; the first is the Kafka record's key
     * @param body passed on byte for byte; null is a tombstone, which needs a key
     */
    public Message(String topic, String tags, String keys, byte[] body) {
        this.topic = topic;
        setTags(tags);
        setKeys(keys);
        this.body = body;
    }

    public String getTopic() {
        return topic;
    }

    public void setTopic(String topic) {
        this.topic = topic;
    }

    public String getTags() {
        return tags;
    }

    public void setTags(String tags) {
        this.tags = tags == null ? "" : tags;
    }

    public String getKeys() {
        return keys;
    }

    public void setKeys(String keys) {
        this.keys = keys == null ? "" : keys;
    }

    /** Sets keys, which spaces separate on the wire. */
    public void setKeys(Collection<String> keys) {
        setKeys(String.join(" ", keys));
    }

    public byte[] getBody() {
        return body;
    }

    public void setBody(byte[] body) {
        this.body = body;
    }

    /** Returns the Kafka record's key: the one that was set, else the first of the keys, else null. */
    public byte[] getRecordKey() {
        if (key != null) {
            return key;
        }
        String first = keys.split(" ", 2)[0];
        return first.isEmpty() ? null : first.getBytes(UTF_8);
    }

    /** Sets the Kafka record's key; RocketMQ has no such thing. */
    public void setRecordKey(byte[] key) {
        this.key = key;
    }

    /** Returns the wished partition of the topic, null where the key decides. */
    public Integer getWishedQueueId() {
        return queueId;
    }

    /** Wishes for a partition of the topic. */
    public void setWishedQueueId(Integer queueId) {
        this.queueId = queueId;
    }

    /** Returns the id by which the local transaction has to be found; the listener's message has it. */
    public String getTransactionId() {
        return transactionId;
    }

    public void setTransactionId(String transactionId) {
        this.transactionId = transactionId;
    }

    /**
     * Sets a property of the application's own; it becomes a header of the Kafka record.
     *
     * @throws io.checkback.client.InvalidMessageException the value has lone surrogates
     */
    public void putUserProperty(String name, String value) {
        Validation.requireText(name, value);
        properties.put(name, value.getBytes(UTF_8));
    }

    /** Sets a property of bytes; RocketMQ has texts only. */
    public void putUserProperty(String name, byte[] value) {
        properties.put(name, value.clone());
    }

    /** Returns a property as a text, null for none. */
    public String getUserProperty(String name) {
        byte[] value = properties.get(name);
        return value == null ? null : new String(value, UTF_8);
    }

    /** Returns a property of the application, or one of KEYS, TAGS and UNIQ_KEY; null for none. */
    public String getProperty(String name) {
        String system = switch (name) {
            case PropertyNames.KEYS -> keys;
            case PropertyNames.TAGS -> tags;
            case PropertyNames.UNIQ_KEY -> transactionId;
            default -> "";
        };
        return system.isEmpty() ? getUserProperty(name) : system;
    }

    /** Returns the application's properties as texts, in their order. */
    public Map<String, String> getProperties() {
        Map<String, String> texts = new LinkedHashMap<>();
        properties.forEach((name, value) -> texts.put(name, new String(value, UTF_8)));
        return texts;
    }

    /** Returns the application's properties as bytes, in their order. */
    public Map<String, byte[]> getPropertyBytes() {
        return new LinkedHashMap<>(properties);
    }

    /** Sets RocketMQ's delay level. No transaction can have one: it is dropped, with a warning. */
    public void setDelayTimeLevel(int level) {
        if (level == 0) {
            properties.remove(PropertyNames.DELAY);
        } else {
            putUserProperty(PropertyNames.DELAY, Integer.toString(level));
        }
    }

    OutgoingMessage outgoing() {
        List<Header> headers = new ArrayList<>(properties.size());
        properties.forEach((name, value) -> headers.add(new RecordHeader(name, value)));
        return new OutgoingMessage(topic, getRecordKey(), body, keys, tags, headers, queueId);
    }

    /** Copies everything, so that what a listener writes into its message changes no other one. */
    void copyTo(Message other) {
        other.topic = topic;
        other.tags = tags;
        other.keys = keys;
        other.body = body;
        other.key = key;
        other.queueId = queueId;
        other.transactionId = transactionId;
        other.properties.putAll(properties);
    }

    @Override
    public String toString() {
        return "Message [topic=" + topic + ", tags=" + tags + ", keys=" + keys + ", transactionId=" + transactionId
                + "]";
    }
}
