package io.checkback.client;

/** A message that can't be sent as it is; nothing was sent, and the local transaction did not run. */
public class InvalidMessageException extends CheckbackException {
    private static final long serialVersionUID = 1L;

    /** @param message which limit the message breaks */
    public InvalidMessageException(String message) {
        super(message, null);
    }
}
