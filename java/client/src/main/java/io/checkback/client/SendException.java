package io.checkback.client;

/** A half message is not, or not certainly, stored; the local transaction did not run. */
public class SendException extends BrokerException {
    private static final long serialVersionUID = 1L;

    /** What is known of the half message. */
    public enum Kind {
        /** It is certainly not stored. */
        NOT_STORED,
        /** It may be stored; if it is, this process answers its check with rollback. */
        IN_DOUBT,
        /** The pipeline refuses new transactions (reject_transactions); nothing was sent. */
        REFUSED
    }

    private final Kind kind;
    private final String transactionId;

    /**
     * @param kind what is known of the half message
     * @param transactionId of the half message, empty where nothing was sent
     * @param message what happened, and what to do
     * @param cause Kafka's error, null for none
     */
    public SendException(Kind kind, String transactionId, String message, Throwable cause) {
        super(message, cause);
        this.kind = kind;
        this.transactionId = transactionId;
    }

    /** Returns what is known of the half message. */
    public Kind kind() {
        return kind;
    }

    /** Tells whether the half message may be stored all the same. */
    public boolean isInDoubt() {
        return kind == Kind.IN_DOUBT;
    }

    /** Returns the transaction id of the half message, empty where nothing was sent. */
    public String transactionId() {
        return transactionId;
    }
}
