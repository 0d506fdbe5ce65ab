package io.checkback.client.internal.checks;

import java.util.TreeSet;

/** The offsets of one partition of a check topic: begun in order, finished in any order. */
public final class CheckOffsets {
    private final TreeSet<Long> open = new TreeSet<>();
    private long next = -1;
    private long committed = -1;

    /** Notes that an offset was begun; gaps before it are finished. */
    public void begun(long offset) {
        open.add(offset);
        next = offset + 1;
    }

    /** Notes that an offset is finished. */
    public void finished(long offset) {
        open.remove(offset);
    }

    /** Returns the offset from which a restart continues, -1 where that is committed already. */
    public long toCommit() {
        long reached = open.isEmpty() ? next : open.first();
        return reached == committed ? -1 : reached;
    }

    /** Notes that an offset was committed. */
    public void committed(long offset) {
        committed = offset;
    }
}
