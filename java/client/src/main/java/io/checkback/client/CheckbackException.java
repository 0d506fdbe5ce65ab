package io.checkback.client;

/** Base of all errors of this client. The text says what happened and what to do; it has no secret. */
public class CheckbackException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /**
     * @param message what happened, and what to do
     * @param cause what was raised below, null for nothing
     */
    public CheckbackException(String message, Throwable cause) {
        super(message, cause);
    }
}
