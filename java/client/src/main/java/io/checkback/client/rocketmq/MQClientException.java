package io.checkback.client.rocketmq;

/** What RocketMQ's client throws; the cause is this client's own error. */
public class MQClientException extends Exception {
    private static final long serialVersionUID = 1L;

    /** @param cause what went wrong */
    public MQClientException(RuntimeException cause) {
        super(cause.getMessage(), cause);
    }

    /** Returns the text without a code. */
    public String getErrorMessage() {
        return getMessage();
    }
}
