package io.checkback.client.internal.records;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.checkback.client.CheckRequest;
import io.checkback.client.InvalidMessageException;
import io.checkback.client.LocalTransactionState;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeader;

/** The headers of halves and ops in the wire format's order, and what a check request says. */
public final class Records {
    /** A remark travels in a header; longer texts are cut. */
    public static final int REMARK_CHARACTERS_MAX = 1_024;

    private static final byte[] EMPTY = {};
    private static final Header IS_HALF = header(PropertyNames.TRAN_MSG, "true");
    private static final Header REMOVE = header(PropertyNames.TAGS, "d");
    private static final Header BY_SENDER = header(PropertyNames.FROM_CHECK, "false");
    private static final Header BY_CHECK = header(PropertyNames.FROM_CHECK, "true");
    private static final Header NO_IMMUNITY = new RecordHeader(PropertyNames.IMMUNITY, EMPTY);
    private static final Pattern WHOLE_NUMBER = Pattern.compile("[0-9]{1,18}");

    private Records() {}

    /** Returns a header with a text as its value. */
    public static Header header(String name, String value) {
        return new RecordHeader(name, value.getBytes(UTF_8));
    }

    /**
     * Returns the headers of a half message.
     *
     * @param group header of the producer group
     * @param transactionId UNIQ_KEY
     * @param message what is sent
     */
    public static List<Header> half(Header group, String transactionId, OutgoingMessage message) {
        List<Header> headers = new ArrayList<>(10 + message.properties().size());
        headers.add(IS_HALF);
        headers.add(group);
        headers.add(header(PropertyNames.UNIQ_KEY, transactionId));
        headers.add(header(PropertyNames.REAL_TOPIC, message.topic()));
        headers.add(NO_IMMUNITY);
        if (message.queueId() != null) {
            headers.add(header(PropertyNames.REAL_QID, message.queueId().toString()));
        }
        for (Header property : message.properties()) {
            if (property.key().equals(PropertyNames.IMMUNITY)) {
                headers.set(4, property);
            } else if (!property.key().equals(PropertyNames.DELAY)) {
                headers.add(property);
            }
        }
        if (!message.keys().isEmpty()) {
            headers.add(header(PropertyNames.KEYS, message.keys()));
        }
        if (!message.tags().isEmpty()) {
            headers.add(header(PropertyNames.TAGS, message.tags()));
        }
        return headers;
    }

    /**
     * Returns the headers of an op.
     *
     * @param group header of the producer group
     * @param transactionId UNIQ_KEY of the half
     * @param state how the local transaction ended
     * @param isAnswer whether the op answers a check request
     * @param remark what went wrong, empty for nothing
     */
    public static List<Header> op(
            Header group, String transactionId, LocalTransactionState state, boolean isAnswer, String remark) {
        List<Header> headers = new ArrayList<>(8);
        headers.add(REMOVE);
        headers.add(header(PropertyNames.COMMIT_OR_ROLLBACK, Integer.toString(state.code())));
        headers.add(group);
        headers.add(header(PropertyNames.UNIQ_KEY, transactionId));
        headers.add(isAnswer ? BY_CHECK : BY_SENDER);
        if (!remark.isEmpty()) {
            headers.add(header(PropertyNames.REMARK, remark));
        }
        return headers;
    }

    /** Returns an exception as one short line for REMARK. */
    public static String oneLine(Throwable error) {
        String line = String.valueOf(error).strip().replaceAll("\\s+", " ");
        return line.length() <= REMARK_CHARACTERS_MAX ? line : line.substring(0, REMARK_CHARACTERS_MAX);
    }

    /**
     * Reads a check request.
     *
     * @throws InvalidMessageException it does not say which half message it asks about
     */
    public static CheckRequest checkRequest(ConsumerRecord<byte[], byte[]> record) {
        Headers headers = record.headers();
        String transactionId = text(headers, PropertyNames.UNIQ_KEY);
        if (transactionId.isEmpty()) {
            throw new InvalidMessageException("The check request has no UNIQ_KEY.");
        }
        List<Header> own = new ArrayList<>();
        for (Header header : headers) {
            boolean isUnset = header.key().equals(PropertyNames.IMMUNITY) && value(header).length == 0;
            if (!PropertyNames.RESERVED.contains(header.key()) && !isUnset) {
                own.add(new RecordHeader(header.key(), value(header)));
            }
        }
        Long queueId = number(headers, PropertyNames.REAL_QID);
        return new CheckRequest(
                transactionId,
                text(headers, PropertyNames.REAL_TOPIC),
                record.key(),
                record.value(),
                own,
                text(headers, PropertyNames.KEYS),
                text(headers, PropertyNames.TAGS),
                queueId == null || queueId > Integer.MAX_VALUE ? null : queueId.intValue(),
                text(headers, PropertyNames.PGROUP),
                (int) required(headers, PropertyNames.HALF_PARTITION, Integer.MAX_VALUE),
                required(headers, PropertyNames.HALF_OFFSET, Long.MAX_VALUE),
                (int) required(headers, PropertyNames.CHECK_TIMES, Integer.MAX_VALUE),
                record.timestamp(),
                number(headers, PropertyNames.CHECK_INTERVAL_MS));
    }

    /** Tells whether bytes are a UTF-8 text. */
    public static boolean isText(byte[] bytes) {
        try {
            UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes));
            return true;
        } catch (CharacterCodingException error) {
            return false;
        }
    }

    private static long required(Headers headers, String name, long most) {
        Long number = number(headers, name);
        if (number == null || number > most) {
            throw new InvalidMessageException(
                    "The check request's " + name + " is '" + text(headers, name) + "', not a whole number.");
        }
        return number;
    }

    private static Long number(Headers headers, String name) {
        String text = text(headers, name);
        return WHOLE_NUMBER.matcher(text).matches() ? Long.valueOf(text) : null;
    }

    private static String text(Headers headers, String name) {
        for (Header header : headers.headers(name)) {
            return new String(value(header), UTF_8);
        }
        return "";
    }

    private static byte[] value(Header header) {
        return header.value() == null ? EMPTY : header.value();
    }
}
