package io.checkback.client.internal.sending;

import io.checkback.client.SendOutcome;
import io.checkback.client.internal.LocalOutcome;
import io.checkback.client.internal.records.OutgoingMessage;
import io.checkback.client.internal.records.PropertyNames;
import io.checkback.client.internal.records.Records;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Header;

/** A half message on its way to the half topic, and where it is stored in the end. */
public final class Half {
    private static final int ID_AT = 2;

    final OutgoingMessage message;
    final List<Header> headers;
    final long deadlineNanos;
    final Set<Integer> tried = new HashSet<>();
    String transactionId;
    int partition = -1;
    long offset = -1;
    boolean isSafe = true;
    long statedMs;

    public Half(OutgoingMessage message, List<Header> headers, String transactionId, long deadlineNanos) {
        this.message = message;
        this.headers = headers;
        this.transactionId = transactionId;
        this.deadlineNanos = deadlineNanos;
    }

    /** Returns the transaction id that stands on the half topic. */
    public String transactionId() {
        return transactionId;
    }

    /** Tells whether enough replicas have it; otherwise its local transaction must not run. */
    public boolean isSafe() {
        return isSafe;
    }

    /** Returns what the sender gets, once the local transaction has ended. */
    public SendOutcome sendOutcome(LocalOutcome outcome) {
        return new SendOutcome(transactionId, partition, offset, isSafe, outcome.state(), outcome.exception());
    }

    long leftNanos() {
        return Math.max(0, deadlineNanos - System.nanoTime());
    }

    /** Gives it another transaction id: the half of the first one may be stored after all. */
    public void rename(String id) {
        transactionId = id;
        headers.set(ID_AT, Records.header(PropertyNames.UNIQ_KEY, id));
    }

    /** One try to store a half: the answer, once it has come. */
    static final class Try implements Callback {
        final int partition;
        private final Thread sender = Thread.currentThread();
        private volatile boolean isHandedOver;
        private volatile boolean isDone;
        boolean isNeverSent;
        RecordMetadata metadata;
        Exception error;

        Try(int partition) {
            this.partition = partition;
        }

        void handedOver() {
            isHandedOver = true;
        }

        @Override
        public void onCompletion(RecordMetadata metadata, Exception error) {
            this.metadata = metadata;
            this.error = error;
            // Kafka's producer calls back inside send() where it did not take the record in.
            isNeverSent = error != null && !isHandedOver && Thread.currentThread() == sender;
            isDone = true;
            LockSupport.unpark(sender);
        }

        /** Waits in the thread that sent it; tells whether the answer has come. */
        boolean await(long untilNanos) throws InterruptedException {
            while (!isDone) {
                long left = untilNanos - System.nanoTime();
                if (left <= 0) {
                    return isDone;
                }
                LockSupport.parkNanos(this, left);
                if (Thread.interrupted()) {
                    throw new InterruptedException();
                }
            }
            return true;
        }

        boolean isDone() {
            return isDone;
        }
    }
}
