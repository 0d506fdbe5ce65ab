package io.checkback.client.internal.checks;

import io.checkback.client.CheckRequest;
import io.checkback.client.LocalTransactionState;

/** Knows how local transactions ended. */
@FunctionalInterface
public interface Checker {
    /** Returns how the local transaction of a half ended; null counts as unknown. */
    LocalTransactionState check(CheckRequest request) throws Exception;
}
