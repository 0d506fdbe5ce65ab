package io.checkback.client;

/**
 * Thrown by a local transaction that has certainly rolled back. The producer says rollback at once; any
 * other exception means that the end is unknown, and a check asks later.
 */
public class RolledBackException extends CheckbackException {
    private static final long serialVersionUID = 1L;

    /** @param cause why it rolled back */
    public RolledBackException(Throwable cause) {
        super("The local transaction was rolled back: " + cause, cause);
    }
}
