package io.checkback.client.internal.sending;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;

/** Ids of halves that may be stored although their local transactions did not run; forgets the oldest. */
public final class InDoubtIds {
    private static final int IN_DOUBT_MAX = 100_000;

    private final Set<String> ids = Collections.synchronizedSet(Collections.newSetFromMap(new LinkedHashMap<>() {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Boolean> eldest) {
            return size() > IN_DOUBT_MAX;
        }
    }));

    public void add(String transactionId) {
        ids.add(transactionId);
    }

    public boolean contains(String transactionId) {
        return ids.contains(transactionId);
    }
}
