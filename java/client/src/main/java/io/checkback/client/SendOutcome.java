package io.checkback.client;

/**
 * A half message that was stored, and how its local transaction ended.
 *
 * @param transactionId UNIQ_KEY of the half message
 * @param partition partition of the half topic
 * @param offset offset of the half message there, -1 where the brokers did not say it
 * @param isSafelyStored false where the leader has the half message and too few replicas do (Kafka's
 *     NOT_ENOUGH_REPLICAS_AFTER_APPEND): the local transaction did not run, and the half is rolled back
 * @param state what the op says
 * @param exception what the local transaction threw, null for nothing
 */
public record SendOutcome(
        String transactionId,
        int partition,
        long offset,
        boolean isSafelyStored,
        LocalTransactionState state,
        Exception exception) {}
