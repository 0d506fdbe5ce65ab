package io.checkback.client.internal.sending;

/**
 * The brokers' time, from the times that they gave to stored halves and a clock that is never set. A
 * process that goes by its machine's clock would skip every check request while that clock is ahead.
 */
public final class BrokerClock {
    private volatile Long aheadMs;

    private static long steadyMs() {
        return System.nanoTime() / 1_000_000;
    }

    /** Notes when a broker says that it appended a record whose answer arrived now. */
    public void learn(long appendedAtMs) {
        Long known = aheadMs;
        long found = appendedAtMs - steadyMs();
        if (known == null || known != found) {
            aheadMs = found;
        }
    }

    /** Returns the brokers' time, before the first record the machine's. */
    public long nowMs() {
        Long known = aheadMs;
        return known == null ? System.currentTimeMillis() : steadyMs() + known;
    }

    /** Returns how old a record is; zero before the first record: nothing is skipped then. */
    public long ageMs(long appendedAtMs) {
        Long known = aheadMs;
        return known == null ? 0 : steadyMs() + known - appendedAtMs;
    }
}
