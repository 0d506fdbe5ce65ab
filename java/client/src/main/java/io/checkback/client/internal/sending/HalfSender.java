package io.checkback.client.internal.sending;

import io.checkback.client.SendException;
import io.checkback.client.SendException.Kind;
import io.checkback.client.internal.ClientMetrics;
import io.checkback.client.internal.records.RecordSigner;
import io.checkback.client.internal.records.SignedRecord;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.errors.NotEnoughReplicasAfterAppendException;
import org.apache.kafka.common.errors.NotEnoughReplicasException;
import org.apache.kafka.common.protocol.Errors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Stores half messages: acknowledged by all replicas, never twice under one id. A half with a key goes to
 * the partition that Kafka's partitioner chooses; halves without a key take turns, and may be tried on
 * another broker under a new transaction id. Threads may share it.
 */
public final class HalfSender {
    private static final Logger LOG = LoggerFactory.getLogger(HalfSender.class);

    /** The share of the budget after which a half is tried elsewhere, and the least for a try. */
    private static final double SHARE_OF_A_TRY = 0.3;

    private static final long SHORT_OF_REPLICAS_NANOS = TimeUnit.SECONDS.toNanos(5);
    private static final long TURN_NANOS = TimeUnit.MILLISECONDS.toNanos(10);
    private static final int BY_KEY = -1;

    /** Errors that mean that a half is certainly not stored (docs/protocol.md). */
    private static final Set<Errors> REFUSALS = Set.of(
            Errors.INVALID_FETCH_SIZE, Errors.MESSAGE_TOO_LARGE, Errors.INVALID_TOPIC_EXCEPTION,
            Errors.RECORD_LIST_TOO_LARGE, Errors.INVALID_REQUIRED_ACKS, Errors.TOPIC_AUTHORIZATION_FAILED,
            Errors.CLUSTER_AUTHORIZATION_FAILED, Errors.INVALID_TIMESTAMP, Errors.POLICY_VIOLATION,
            Errors.UNSUPPORTED_COMPRESSION_TYPE, Errors.INVALID_RECORD);

    private final Producer<byte[], byte[]> producer;
    private final String topic;
    private final InDoubtIds inDoubt;
    private final ClientMetrics metrics;
    private final BrokerClock clock;
    private final RecordSigner signer;
    private final Supplier<String> newId;
    private final long shareNanos;
    private final int triesMax;
    private final Map<Integer, Long> shortUntilNanos = new ConcurrentHashMap<>();
    private final AtomicInteger turn = new AtomicInteger(-1);
    private volatile long turnUntilNanos = System.nanoTime();

    /**
     * @param producer an idempotent producer
     * @param topic the half topic
     * @param signer signs each try, null for none
     * @param newId makes transaction ids
     * @param budgetNanos time for all tries of one half
     * @param triesMax how many tries there are in it
     */
    public HalfSender(
            Producer<byte[], byte[]> producer,
            String topic,
            InDoubtIds inDoubt,
            ClientMetrics metrics,
            BrokerClock clock,
            RecordSigner signer,
            Supplier<String> newId,
            long budgetNanos,
            int triesMax) {
        this.producer = producer;
        this.topic = topic;
        this.inDoubt = inDoubt;
        this.metrics = metrics;
        this.clock = clock;
        this.signer = signer;
        this.newId = newId;
        this.shareNanos = (long) (budgetNanos * SHARE_OF_A_TRY);
        this.triesMax = triesMax;
    }

    /** Learns the topic's partitions, so that the first half need not wait for them. */
    public void warmUp() {
        producer.partitionsFor(topic);
    }

    /**
     * Stores a half; it then says where.
     *
     * @throws SendException it is not, or not certainly, stored
     */
    public void store(Half half) {
        storeAll(List.of(half));
    }

    /**
     * Stores halves together: all are sent before the first answer is waited for.
     *
     * @throws SendException one is not, or not certainly, stored; the others are noted as in doubt
     */
    public void storeAll(List<Half> halves) {
        int stored = 0;
        try {
            List<Half.Try> first = new ArrayList<>(halves.size());
            for (Half half : halves) {
                first.add(handOver(half));
            }
            for (; stored < halves.size(); stored++) {
                finish(halves.get(stored), first.get(stored));
            }
        } catch (InterruptedException error) {
            Half half = halves.get(stored);
            doubt(half);
            Thread.currentThread().interrupt();
            throw new SendException(
                    Kind.IN_DOUBT, half.transactionId,
                    "The thread was interrupted while it waited for Kafka. The local transaction did not run.",
                    error);
        } finally {
            for (int at = 0; stored < halves.size() && at < halves.size(); at++) {
                // Their local transaction will not run: a check that asks for them gets rollback.
                if (at != stored) {
                    doubt(halves.get(at));
                }
            }
        }
    }

    /** Notes that a half may be stored, and that its local transaction will not run. */
    public void doubt(Half half) {
        inDoubt.add(half.transactionId);
        metrics.add(ClientMetrics.Event.SEND_IN_DOUBT);
    }

    private Half.Try handOver(Half half) {
        int partition = BY_KEY;
        Half.Try attempt = new Half.Try(partition);
        half.statedMs = clock.nowMs();
        try {
            if (half.message.key() == null) {
                partition = nextPartition(half.tried);
                attempt = new Half.Try(partition);
            }
            byte[] key = half.message.key();
            byte[] body = half.message.body();
            Integer chosen = partition == BY_KEY ? null : partition;
            // Signed for each try: the time has changed, and perhaps the id.
            ProducerRecord<byte[], byte[]> record = signer == null
                    ? new ProducerRecord<>(topic, chosen, half.statedMs, key, body, half.headers)
                    : new SignedRecord(
                            topic, chosen, half.statedMs, key, body,
                            signer.sign(topic, null, key, body, half.headers));
            producer.send(record, attempt);
        } catch (KafkaException | IllegalStateException error) {
            if (!attempt.isDone()) {
                attempt.onCompletion(null, error);
            }
        }
        attempt.handedOver();
        return attempt;
    }

    private void finish(Half half, Half.Try first) throws InterruptedException {
        Half.Try attempt = first;
        for (int left = triesMax - 1; ; left--) {
            boolean isMovable = left > 0 && attempt.partition != BY_KEY;
            if (await(half, attempt, isMovable) && isStored(half, attempt)) {
                if (!isUntimely(half, attempt)) {
                    metrics.add(ClientMetrics.Event.SENT);
                    return;
                }
                if (left == 0) {
                    throw untimely(half);
                }
            } else if (!mayGoElsewhere(half, attempt) || !isMovable) {
                throw givenUp(half, attempt);
            }
            tryAnew(half);
            attempt = handOver(half);
        }
    }

    private boolean mayGoElsewhere(Half half, Half.Try failed) {
        note(failed);
        half.tried.add(failed.partition);
        return !isRefusal(failed) && half.leftNanos() >= shareNanos && hasAnotherLeader(half.tried, null);
    }

    /** Waits for an answer: for a share of the time where another broker may store the half. */
    private boolean await(Half half, Half.Try attempt, boolean isMovable) throws InterruptedException {
        if (attempt.await(System.nanoTime() + Math.min(shareNanos, half.leftNanos()))) {
            return true;
        }
        if (isMovable && hasAnotherLeader(half.tried, attempt.partition)) {
            return false;
        }
        return attempt.await(half.deadlineNanos);
    }

    private boolean isStored(Half half, Half.Try attempt) {
        if (attempt.error == null) {
            half.partition = attempt.metadata.partition();
            half.offset = attempt.metadata.hasOffset() ? attempt.metadata.offset() : -1;
            return half.offset >= 0;
        }
        if (!(attempt.error instanceof NotEnoughReplicasAfterAppendException)) {
            return false;
        }
        half.partition = attempt.metadata == null ? attempt.partition : attempt.metadata.partition();
        half.isSafe = false;
        doubt(half);
        return true;
    }

    /** Tells whether a pipeline would refuse the half: the clock that signed it is far from the brokers'. */
    private boolean isUntimely(Half half, Half.Try attempt) {
        if (attempt.error != null || !attempt.metadata.hasTimestamp()) {
            return false;
        }
        long storedMs = attempt.metadata.timestamp();
        if (storedMs == half.statedMs) {
            return false; // perhaps the sender's own: a topic with CreateTime says nothing of the broker
        }
        clock.learn(storedMs);
        return signer != null && Math.abs(storedMs - half.statedMs) > RecordSigner.BORN_TIME_TOLERANCE_MS;
    }

    private void note(Half.Try attempt) {
        if (attempt.error instanceof NotEnoughReplicasException) {
            shortUntilNanos.put(attempt.partition, System.nanoTime() + SHORT_OF_REPLICAS_NANOS);
        }
    }

    private void tryAnew(Half half) {
        inDoubt.add(half.transactionId);
        LOG.info("The half of {} is tried elsewhere", half.transactionId);
        half.rename(newId.get());
        metrics.add(ClientMetrics.Event.SEND_RETRIED);
    }

    private static boolean isRefusal(Half.Try attempt) {
        return attempt.isNeverSent || (attempt.error != null && REFUSALS.contains(Errors.forException(attempt.error)));
    }

    private SendException givenUp(Half half, Half.Try attempt) {
        Exception error = attempt.isDone() ? attempt.error : null;
        String said = error == null ? "there was no answer in time" : error.getMessage();
        if (isRefusal(attempt)) {
            metrics.add(ClientMetrics.Event.SEND_FAILED);
            return new SendException(
                    Kind.NOT_STORED, "",
                    "The half message was not stored: " + said + " The local transaction did not run."
                            + " Send it again when Kafka takes messages.",
                    error);
        }
        doubt(half);
        return new SendException(
                Kind.IN_DOUBT, half.transactionId,
                "It is in doubt whether the half message was stored: " + said + " The local transaction did not"
                        + " run. Send the message again when Kafka answers; a check settles the doubtful one.",
                error);
    }

    private SendException untimely(Half half) {
        doubt(half);
        return new SendException(
                Kind.IN_DOUBT, half.transactionId,
                "The half message was signed by a clock that is far from the brokers', and a pipeline with access"
                        + " control refuses it. The local transaction did not run. Send the message again: the"
                        + " brokers' time is known now. Set the clock by NTP.",
                null);
    }

    private int nextPartition(Set<Integer> tried) {
        List<PartitionInfo> partitions = producer.partitionsFor(topic);
        int first = Math.floorMod(turn(), partitions.size());
        for (int step = 0; step < partitions.size(); step++) {
            PartitionInfo next = partitions.get((first + step) % partitions.size());
            if (next.leader() != null && !tried.contains(next.partition()) && !isShort(next.partition())) {
                return next.partition();
            }
        }
        return partitions.get(first).partition();
    }

    /** Returns the turn of the last halves for a moment: fewer batches carry them. */
    private int turn() {
        long now = System.nanoTime();
        if (now - turnUntilNanos < 0) {
            return turn.get();
        }
        turnUntilNanos = now + TURN_NANOS;
        return turn.incrementAndGet();
    }

    private boolean isShort(int partition) {
        Long until = shortUntilNanos.get(partition);
        if (until == null) {
            return false;
        }
        if (until - System.nanoTime() < 0) {
            shortUntilNanos.remove(partition);
            return false;
        }
        return true;
    }

    /** Tells whether an untried partition has a leader, other than the leader of the given partition. */
    private boolean hasAnotherLeader(Set<Integer> tried, Integer partition) {
        List<PartitionInfo> partitions;
        try {
            partitions = producer.partitionsFor(topic);
        } catch (KafkaException error) {
            return false; // the topic vanished from the metadata: the half stays in doubt
        }
        Integer own = partitions.stream()
                .filter(info -> partition != null && info.partition() == partition && info.leader() != null)
                .map(info -> info.leader().id())
                .findFirst()
                .orElse(null);
        return partitions.stream()
                .anyMatch(info -> info.leader() != null
                        && !tried.contains(info.partition())
                        && (own == null || info.leader().id() != own));
    }

    public void close(Duration timeout) {
        producer.close(timeout);
    }
}
