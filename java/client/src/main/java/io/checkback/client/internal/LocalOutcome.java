package io.checkback.client.internal;

import io.checkback.client.LocalTransactionState;
import io.checkback.client.RolledBackException;
import io.checkback.client.internal.ClientMetrics.Event;
import io.checkback.client.internal.records.Records;
import java.util.concurrent.Callable;

/**
 * The end of a callback of the application.
 *
 * @param state what the op says
 * @param remark what went wrong, empty for nothing
 * @param exception what was thrown, null for nothing
 */
public record LocalOutcome(LocalTransactionState state, String remark, Exception exception) {

    /** Returns an outcome that nothing went wrong with. */
    public static LocalOutcome of(LocalTransactionState state) {
        return new LocalOutcome(state, "", null);
    }

    /** Runs a callback; null and an exception mean unknown, a RolledBackException means rollback. */
    public static LocalOutcome of(Callable<LocalTransactionState> callback) {
        try {
            LocalTransactionState state = callback.call();
            return of(state == null ? LocalTransactionState.UNKNOW : state);
        } catch (RolledBackException error) {
            return new LocalOutcome(LocalTransactionState.ROLLBACK_MESSAGE, Records.oneLine(error), error);
        } catch (Exception error) {
            if (error instanceof InterruptedException) {
                Thread.currentThread().interrupt();
            }
            return new LocalOutcome(LocalTransactionState.UNKNOW, Records.oneLine(error), error);
        }
    }

    /** Returns the event to count. */
    public Event event() {
        return switch (state) {
            case COMMIT_MESSAGE -> Event.COMMITTED;
            case ROLLBACK_MESSAGE -> Event.ROLLED_BACK;
            case UNKNOW -> Event.UNKNOWN;
        };
    }
}
