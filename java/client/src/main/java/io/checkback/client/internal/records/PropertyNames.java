package io.checkback.client.internal.records;

import java.util.Set;
import java.util.TreeSet;

/** Names and values of headers (docs/protocol.md; they are RocketMQ's MessageConst). */
public final class PropertyNames {
    public static final String REAL_TOPIC = "REAL_TOPIC";
    public static final String REAL_QID = "REAL_QID";
    public static final String TRAN_MSG = "TRAN_MSG";
    public static final String PGROUP = "PGROUP";
    public static final String UNIQ_KEY = "UNIQ_KEY";
    public static final String KEYS = "KEYS";
    public static final String TAGS = "TAGS";
    public static final String DELAY = "DELAY";
    public static final String IMMUNITY = "CHECK_IMMUNITY_TIME_IN_SECONDS";
    public static final String CHECK_TIMES = "TRANSACTION_CHECK_TIMES";
    public static final String CHECK_INTERVAL_MS = "TRANSACTION_CHECK_INTERVAL_MS";
    public static final String HALF_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET";
    public static final String HALF_PARTITION = "TRAN_HALF_QUEUE_ID";
    public static final String COMMIT_OR_ROLLBACK = "COMMIT_OR_ROLLBACK";
    public static final String FROM_CHECK = "FROM_TRANSACTION_CHECK";
    public static final String REMARK = "REMARK";
    public static final String BORN_HOST = "__BORNHOST";
    public static final String SIGNATURE = "Signature";

    /** Names that no property of an application may have. */
    public static final Set<String> RESERVED = Set.of(
            "AccessKey", "BORN_TIMESTAMP", COMMIT_OR_ROLLBACK, "DIRECT_ID", FROM_CHECK, "MANUAL_OPERATOR",
            KEYS, PGROUP, REAL_QID, REAL_TOPIC, REMARK, "SecurityToken", SIGNATURE, TAGS, CHECK_TIMES,
            CHECK_INTERVAL_MS, HALF_PARTITION, TRAN_MSG, HALF_OFFSET, UNIQ_KEY, BORN_HOST,
            "__checkback.discarded.reason",
            "__checkback.resend.from", "__checkback.resend.operator", "__checkback.resend.reason",
            "__checkback.resend.time_ms", "__checkback.resend.to",
            "__checkback.resume.from", "__checkback.resume.operator", "__checkback.resume.reason",
            "__checkback.resume.time_ms", "__checkback.resume.to");

    /** Properties of RocketMQ's timer messages, which no transaction can have. */
    public static final Set<String> TIMERS =
            new TreeSet<>(Set.of("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"));

    private PropertyNames() {}
}
