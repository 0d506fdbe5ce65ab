package io.checkback.client;

/** How a local transaction ended. {@link #code()} is what stands in the op (RocketMQ's MessageSysFlag). */
public enum LocalTransactionState {
    /** The local transaction is committed: the message becomes visible. */
    COMMIT_MESSAGE(8),
    /** The local transaction is rolled back: no consumer ever sees the message. */
    ROLLBACK_MESSAGE(12),
    /** Not known yet, in RocketMQ's spelling: a check will ask later. */
    UNKNOW(0);

    private final int code;

    LocalTransactionState(int code) {
        this.code = code;
    }

    /** Returns the value of the header COMMIT_OR_ROLLBACK. */
    public int code() {
        return code;
    }
}
