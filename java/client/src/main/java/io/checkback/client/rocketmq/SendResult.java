package io.checkback.client.rocketmq;

import io.checkback.client.SendOutcome;

/** A message that was stored. */
public class SendResult {
    final SendOutcome outcome;
    private final MessageQueue messageQueue;

    SendResult(SendOutcome outcome, String halfTopic) {
        this.outcome = outcome;
        this.messageQueue = new MessageQueue(halfTopic, outcome.partition());
    }

    /** Returns how safely it is stored. */
    public SendStatus getSendStatus() {
        return outcome.isSafelyStored() ? SendStatus.SEND_OK : SendStatus.SLAVE_NOT_AVAILABLE;
    }

    /** Returns the unique id that the client gave the message (UNIQ_KEY). */
    public String getMsgId() {
        return outcome.transactionId();
    }

    /** Returns the partition of the half topic that has the half. */
    public MessageQueue getMessageQueue() {
        return messageQueue;
    }

    /** Returns the half's offset there, -1 where the brokers did not say it. */
    public long getQueueOffset() {
        return outcome.offset();
    }

    /** Returns the same as {@link #getMsgId}. */
    public String getTransactionId() {
        return outcome.transactionId();
    }

    /** Returns topic, partition and offset as one text. */
    public String getOffsetMsgId() {
        return messageQueue.topic() + "-" + messageQueue.queueId() + "-" + outcome.offset();
    }

    @Override
    public String toString() {
        return "SendResult [sendStatus=" + getSendStatus() + ", msgId=" + getMsgId() + ", messageQueue="
                + messageQueue + ", queueOffset=" + getQueueOffset() + "]";
    }
}
