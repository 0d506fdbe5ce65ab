package io.checkback.client;

/**
 * A transaction that has a half message on Kafka, as the local transaction sees it.
 *
 * @param id the transaction id, unique within the group. What the local transaction writes has to be
 *     found by this id, for a check asks with it.
 */
public record Transaction(String id) {
    /** Says that the local transaction is committed. */
    public LocalTransactionState commit() {
        return LocalTransactionState.COMMIT_MESSAGE;
    }

    /** Says that the local transaction is rolled back. */
    public LocalTransactionState rollback() {
        return LocalTransactionState.ROLLBACK_MESSAGE;
    }

    /** Says that the end is not known yet; a check asks later. */
    public LocalTransactionState unknown() {
        return LocalTransactionState.UNKNOW;
    }
}
