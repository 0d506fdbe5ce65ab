package io.checkback.client;

/** Kafka can't be reached, is not set up, or refused what was asked. */
public class BrokerException extends CheckbackException {
    private static final long serialVersionUID = 1L;

    /**
     * @param message what happened, and what to do
     * @param cause Kafka's error, null for none
     */
    public BrokerException(String message, Throwable cause) {
        super(message, cause);
    }
}
