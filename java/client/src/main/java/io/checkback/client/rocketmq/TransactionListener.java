package io.checkback.client.rocketmq;

import io.checkback.client.LocalTransactionState;

/**
 * The two callbacks of a transactional producer. Both may be called from several threads at once, and the
 * check in a process that did not send the message. An exception counts as UNKNOW: a check asks later. A
 * {@link io.checkback.client.RolledBackException} counts as rollback.
 */
public interface TransactionListener {
    /**
     * Runs the local transaction of a half message that is safely stored.
     *
     * @param message the message as it was sent, with its transaction id
     * @param arg what the caller of sendMessageInTransaction passed
     * @return how it ended; null counts as UNKNOW
     */
    LocalTransactionState executeLocalTransaction(Message message, Object arg);

    /**
     * Says how the local transaction of a message ended.
     *
     * @param message the half message as it came back, with its transaction id
     * @return how it ended; null counts as UNKNOW: it is asked again
     */
    LocalTransactionState checkLocalTransaction(MessageExt message);
}
