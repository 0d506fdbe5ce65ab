package io.checkback.client.internal.records;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.checkback.client.InvalidMessageException;
import java.util.HashSet;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.header.Header;

/** What can't be sent, said before anything is sent. Limits are those of RocketMQ's Validators. */
public final class Validation {
    private static final int GROUP_LENGTH_MAX = 120;
    private static final int TOPIC_LENGTH_MAX = 127;
    private static final int PROPERTIES_BYTES_MAX = 32_767;
    private static final int IMMUNITY_TIME_MAX_S = 31_536_000;
    private static final Pattern IMMUNITY_DIGITS = Pattern.compile("[0-9]{1,8}");

    private Validation() {}

    /**
     * Refuses a producer group that RocketMQ refuses or that makes no topic name.
     *
     * @throws ConfigException says what is wrong
     */
    public static void requireGroup(String group) {
        String problem = nameProblem("producer group", group, GROUP_LENGTH_MAX);
        if (problem == null && group.equals("DEFAULT_PRODUCER")) {
            problem = "The producer group must not be DEFAULT_PRODUCER. Name the group.";
        }
        if (problem != null) {
            throw new ConfigException(problem);
        }
    }

    /**
     * Refuses a message that can't be sent in a transaction.
     *
     * @throws InvalidMessageException says which limit the message breaks
     */
    public static void requireMessage(OutgoingMessage message, TopicNames topics, int bodyBytesMax) {
        requireTopic(message.topic(), topics);
        requireBody(message, bodyBytesMax);
        requireProperties(message);
        requireText("keys", message.keys());
        requireText("tags", message.tags());
        if (message.queueId() != null && message.queueId() < 0) {
            throw new InvalidMessageException("The queue id is " + message.queueId() + "; it is 0 or more.");
        }
    }

    /**
     * Refuses what no signature would bind: its content has a separator between two values.
     *
     * @throws InvalidMessageException names the header
     */
    public static void requireSignable(OutgoingMessage message) {
        for (Header property : message.properties()) {
            byte[] value = property.value();
            for (int at = 0; value != null && at < value.length; at++) {
                if (value[at] == RecordSigner.SEPARATOR) {
                    throw new InvalidMessageException("The header " + property.key() + " has a byte ff: no value of"
                            + " a signed record can. Write it as text, in Base64 for example.");
                }
            }
        }
    }

    private static void requireTopic(String topic, TopicNames topics) {
        String problem = nameProblem("topic", topic, TOPIC_LENGTH_MAX);
        if (problem == null && topics.isSystem(topic)) {
            problem = topic + " is a system topic. Send to a topic of your own.";
        }
        if (problem != null) {
            throw new InvalidMessageException(problem);
        }
    }

    private static String nameProblem(String what, String name, int lengthMax) {
        if (name == null || name.isBlank()) {
            return "The " + what + " is blank.";
        }
        if (name.length() > lengthMax) {
            return "The " + what + " has " + name.length() + " characters; at most " + lengthMax + " are allowed.";
        }
        if (!TopicNames.isKafkaName(name)) {
            return "The " + what + " '" + name
                    + "' has characters other than letters, digits, '.', '_' and '-', or is '.' or '..'.";
        }
        return null;
    }

    private static void requireBody(OutgoingMessage message, int bytesMax) {
        byte[] body = message.body();
        if (body == null) {
            if (message.key() == null) {
                throw new InvalidMessageException(
                        "The body is null, and the message has no key. A tombstone says which key's message it"
                                + " takes away.");
            }
        } else if (body.length == 0) {
            throw new InvalidMessageException(
                    "The body is empty. Give at least one byte, or null for a tombstone.");
        } else if (body.length > bytesMax) {
            throw new InvalidMessageException(
                    "The body has " + body.length + " bytes; at most " + bytesMax + " are allowed.");
        }
    }

    private static void requireProperties(OutgoingMessage message) {
        if (message.properties().isEmpty()) {
            return;
        }
        int size = 0;
        Set<String> seen = new HashSet<>();
        for (Header property : message.properties()) {
            String name = property.key();
            requireName(name);
            if (!seen.add(name) && name.equals(PropertyNames.IMMUNITY)) {
                throw new InvalidMessageException("The header " + name + " is there twice.");
            }
            byte[] value = property.value() == null ? new byte[0] : property.value();
            size += name.getBytes(UTF_8).length + value.length + 2;
            if (name.equals(PropertyNames.IMMUNITY)) {
                requireImmunityTime(new String(value, UTF_8));
            }
        }
        if (size > PROPERTIES_BYTES_MAX) {
            throw new InvalidMessageException("The properties have " + size + " bytes; at most "
                    + PROPERTIES_BYTES_MAX + " are allowed. Put large values into the body.");
        }
    }

    private static void requireName(String name) {
        if (name.isEmpty()) {
            throw new InvalidMessageException("A property has an empty name. Give it one, or take it out.");
        }
        if (name.indexOf('\0') >= 0) {
            throw new InvalidMessageException("The name of the property '" + name + "' has a NUL. Take it out.");
        }
        if (PropertyNames.RESERVED.contains(name)) {
            throw new InvalidMessageException(
                    "The property " + name + " is the system's. Choose another name; keys and tags have setters"
                            + " of their own.");
        }
        if (PropertyNames.TIMERS.contains(name)) {
            throw new InvalidMessageException("The property " + name
                    + " can't be honoured. Take it off: messages are neither delayed nor delivered at a set time.");
        }
        requireText(name, name);
    }

    /**
     * Refuses a text that has no UTF-8 form.
     *
     * @throws InvalidMessageException it has lone surrogates
     */
    public static void requireText(String what, String text) {
        if (!UTF_8.newEncoder().canEncode(text)) {
            throw new InvalidMessageException(
                    "The property '" + what + "' can't be written as UTF-8. Take out its lone surrogates.");
        }
    }

    private static void requireImmunityTime(String text) {
        if (!IMMUNITY_DIGITS.matcher(text).matches() || Integer.parseInt(text) > IMMUNITY_TIME_MAX_S) {
            throw new InvalidMessageException(PropertyNames.IMMUNITY + " is '" + text
                    + "'. It must be a whole number of seconds from 0 to " + IMMUNITY_TIME_MAX_S + ".");
        }
    }
}
