package io.checkback.client;

import io.checkback.client.internal.LocalOutcome;
import io.checkback.client.internal.TransactionEngine;
import io.checkback.client.internal.records.OutgoingMessage;
import io.checkback.client.internal.sending.Half;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.serialization.Serializer;

/**
 * Sends records that become visible if and only if a local transaction commits. Threads may share it.
 *
 * <pre>{@code
 * var producer = new CheckbackProducer<String, String>(settings, new StringSerializer(), new StringSerializer());
 * producer.onCheck(check -> orders.isPaid(check.id()) ? COMMIT_MESSAGE : ROLLBACK_MESSAGE);
 * producer.start();
 * producer.send(new ProducerRecord<>("paid", "order-1", "42 EUR"), tx -> {
 *     orders.pay("order-1", tx.id());
 *     return tx.commit();
 * });
 * }</pre>
 *
 * @param <K> type of the keys
 * @param <V> type of the values
 */
public final class CheckbackProducer<K, V> implements AutoCloseable {
    private final TransactionEngine engine;
    private final Serializer<K> keySerializer;
    private final Serializer<V> valueSerializer;
    private volatile Check check;

    /** A local transaction; it runs once the half message is safely stored. */
    @FunctionalInterface
    public interface Work {
        /**
         * Runs the local transaction.
         *
         * @param transaction has the id that the local transaction has to write down
         * @return how it ended; null counts as unknown: a check asks later
         * @throws RolledBackException it has certainly rolled back
         * @throws Exception anything else: how it ended is unknown, a check asks later
         */
        LocalTransactionState run(Transaction transaction) throws Exception;
    }

    /** Says how a local transaction ended; it may be one of another process of the group. */
    @FunctionalInterface
    public interface Check {
        /**
         * Returns how the local transaction ended; null and an exception count as unknown: it is asked again.
         *
         * @param request the half message and its transaction id
         */
        LocalTransactionState answer(CheckRequest request) throws Exception;
    }

    /**
     * @param settings those of {@link CheckbackConfig}, and any of Kafka's clients
     * @param keySerializer makes the keys' bytes
     * @param valueSerializer makes the values' bytes; null stays null, a tombstone
     * @throws ConfigException a setting is missing or not usable
     */
    public CheckbackProducer(
            Map<String, ?> settings, Serializer<K> keySerializer, Serializer<V> valueSerializer) {
        this.keySerializer = keySerializer;
        this.valueSerializer = valueSerializer;
        this.engine = new TransactionEngine(new CheckbackConfig(settings), this::answer);
    }

    /**
     * Makes a producer with the serializers that {@code key.serializer} and {@code value.serializer} name.
     *
     * @param settings those of {@link CheckbackConfig}, and any of Kafka's clients
     * @throws ConfigException a setting is missing or not usable
     */
    public CheckbackProducer(Map<String, ?> settings) {
        this(
                settings,
                configured(settings, ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, true),
                configured(settings, ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, false));
    }

    @SuppressWarnings("unchecked")
    private static <T> Serializer<T> configured(Map<String, ?> settings, String name, boolean isKey) {
        Serializer<T> made = new ProducerConfig(new java.util.HashMap<>(settings))
                .getConfiguredInstance(name, Serializer.class);
        made.configure(settings, isKey);
        return made;
    }

    /**
     * Sets what answers checks; needed before {@link #start}.
     *
     * @param answers called in threads of the producer, several at once
     */
    public void onCheck(Check answers) {
        this.check = answers;
    }

    /**
     * Connects, creates the group's check topic unless it exists, and begins to answer checks.
     *
     * @throws IllegalStateException started before, without {@link #onCheck}, or another producer of the group
     *     runs in this JVM
     * @throws BrokerException Kafka can't be reached or is not set up
     */
    public void start() {
        if (check == null) {
            throw new IllegalStateException("Nothing answers checks. Call onCheck() before start().");
        }
        engine.start();
    }

    /**
     * Stores a half message, runs the local transaction, and says how it ended. The op is sent without
     * waiting: if it is lost, a check asks later.
     *
     * @param record what consumers of its topic get once it is committed; a partition is a wish that counts
     *     where the partition exists; the record's timestamp is not used, Kafka's brokers set it
     * @param work the local transaction
     * @return where the half is, and how the local transaction ended
     * @throws InvalidMessageException the record can't be sent as it is; nothing was sent
     * @throws TopicNotFoundException its topic does not exist; nothing was sent
     * @throws SendException the half is not, or not certainly, stored; the local transaction did not run
     * @throws IllegalStateException not started, or shut down
     */
    public SendOutcome send(ProducerRecord<K, V> record, Work work) {
        return engine.send(message(record), id -> work.run(new Transaction(id)));
    }

    /**
     * Stores half messages together, for one local transaction that the caller runs and ends. This is for
     * frameworks that commit by themselves; other callers use {@link #send}.
     *
     * @param records as in {@link #send}
     * @return the halves; the caller must end each of them, or leave it to a check
     * @throws CheckbackException as in {@link #send}; then the local transaction must not commit
     */
    public List<OpenTransaction> begin(List<ProducerRecord<K, V>> records) {
        List<OutgoingMessage> messages = new ArrayList<>(records.size());
        records.forEach(record -> messages.add(message(record)));
        List<OpenTransaction> opened = new ArrayList<>(records.size());
        engine.storeAll(messages).forEach(half -> opened.add(new OpenTransaction(half)));
        return opened;
    }

    /** A half message that is stored, and not ended yet. */
    public final class OpenTransaction {
        private final Half half;
        private final AtomicBoolean isEnded = new AtomicBoolean();

        private OpenTransaction(Half half) {
            this.half = half;
        }

        /** Returns the transaction id. */
        public String id() {
            return half.transactionId();
        }

        /** Says how the local transaction ended; the op is sent without waiting. */
        public SendOutcome end(LocalTransactionState state) {
            try {
                return engine.end(half, LocalOutcome.of(state));
            } finally {
                close();
            }
        }

        /** Sends no op: a check asks how the local transaction ended. */
        public void leaveToCheck() {
            close();
        }

        private void close() {
            if (isEnded.compareAndSet(false, true)) {
                engine.ended();
            }
        }
    }

    /**
     * Stops taking records, waits for what is running, and closes; does nothing a second time.
     *
     * @return how many sends and answers still ran when {@code checkback.shutdown.timeout.ms} was over;
     *     checks ask how they ended
     */
    public int shutdown() {
        return engine.shutdown();
    }

    /** Shuts down; see {@link #shutdown}. */
    @Override
    public void close() {
        shutdown();
    }

    private LocalTransactionState answer(CheckRequest request) throws Exception {
        return check.answer(request);
    }

    private OutgoingMessage message(ProducerRecord<K, V> record) {
        byte[] key = keySerializer.serialize(record.topic(), record.headers(), record.key());
        byte[] value = valueSerializer.serialize(record.topic(), record.headers(), record.value());
        return new OutgoingMessage(
                record.topic(), key, value, "", "", Arrays.asList(record.headers().toArray()), record.partition());
    }
}
