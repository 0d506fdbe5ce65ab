package io.checkback.client.rocketmq;

import io.checkback.client.LocalTransactionState;
import io.checkback.client.SendOutcome;

/** A half message that was stored, and how its local transaction ended. */
public class TransactionSendResult extends SendResult {
    TransactionSendResult(SendOutcome outcome, String halfTopic) {
        super(outcome, halfTopic);
    }

    /**
     * Returns what the op says. ROLLBACK_MESSAGE with a status other than SEND_OK means that the local
     * transaction did not run.
     */
    public LocalTransactionState getLocalTransactionState() {
        return outcome.state();
    }

    /** Returns what the listener threw, null for nothing. RocketMQ only logs it. */
    public Exception getException() {
        return outcome.exception();
    }
}
