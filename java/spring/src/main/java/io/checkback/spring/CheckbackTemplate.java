package io.checkback.spring;

import io.checkback.client.CheckbackProducer;
import io.checkback.client.LocalTransactionState;
import io.checkback.client.RolledBackException;
import io.checkback.client.jdbc.JdbcTransactionLog;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.function.Supplier;
import javax.sql.DataSource;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.springframework.jdbc.datasource.DataSourceUtils;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.support.TransactionSynchronization;
import org.springframework.transaction.support.TransactionSynchronizationManager;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * Sends records that become visible if and only if the caller's Spring transaction commits. Right before the
 * commit it stores all half messages of the transaction together and writes a row for each into the log's
 * table, in the same database transaction; right after it, it says how the transaction ended. A transaction
 * that rolls back earlier leaves nothing on Kafka. Threads may share it.
 *
 * @param <K> type of the keys
 * @param <V> type of the values
 */
public final class CheckbackTemplate<K, V> {
    private final CheckbackProducer<K, V> producer;
    private final JdbcTransactionLog log;
    private final DataSource dataSource;
    private final TransactionTemplate transactions;

    /**
     * Makes the log answer the producer's checks; start the producer afterwards.
     *
     * @param producer not started yet
     * @param log its table is in the database of the business rows
     * @param dataSource that database, as the transaction manager has it
     * @param manager the transactions of the business rows: JDBC's, or JPA's over the same data source
     */
    public CheckbackTemplate(
            CheckbackProducer<K, V> producer,
            JdbcTransactionLog log,
            DataSource dataSource,
            PlatformTransactionManager manager) {
        this.producer = producer;
        this.log = log;
        this.dataSource = dataSource;
        this.transactions = new TransactionTemplate(manager);
        producer.onCheck(check -> log.outcome(check.id()));
    }

    /**
     * Sends a record with the transaction that is active in this thread; returns at once.
     *
     * @param record what consumers of its topic get once the transaction is committed. If it can't be
     *     sent, the commit fails.
     * @throws IllegalStateException no transaction is active, or only one that reads, or it is being committed
     */
    public void send(ProducerRecord<K, V> record) {
        if (!TransactionSynchronizationManager.isSynchronizationActive()
                || !TransactionSynchronizationManager.isActualTransactionActive()) {
            throw new IllegalStateException("No transaction is active in this thread. Call send() in a method that is"
                    + " @Transactional, or send(record, work).");
        }
        if (TransactionSynchronizationManager.isCurrentTransactionReadOnly()) {
            throw new IllegalStateException("The transaction only reads. Take readOnly off, or send elsewhere.");
        }
        joined().add(record);
    }

    @SuppressWarnings("unchecked") // bound under this template, so it is of its types
    private Joined joined() {
        Joined joined = (Joined) TransactionSynchronizationManager.getResource(this);
        if (joined == null) {
            joined = new Joined();
            TransactionSynchronizationManager.bindResource(this, joined);
            TransactionSynchronizationManager.registerSynchronization(joined);
        }
        return joined;
    }

    /**
     * Runs work in the active transaction, or in one of its own, and sends a record with it.
     *
     * @param record as in {@link #send(ProducerRecord)}
     * @param work writes the business rows
     * @return what the work returned
     */
    public <T> T send(ProducerRecord<K, V> record, Supplier<T> work) {
        return transactions.execute(status -> {
            T result = work.get();
            send(record);
            return result;
        });
    }

    /** The records of one Spring transaction. */
    private final class Joined implements TransactionSynchronization {
        private final List<ProducerRecord<K, V>> records = new ArrayList<>();
        private final Deque<Savepoint> savepoints = new ArrayDeque<>();
        private List<CheckbackProducer<K, V>.OpenTransaction> opened = List.of();
        private boolean isCommitting;

        private record Savepoint(Object key, int records) {}

        void add(ProducerRecord<K, V> record) {
            if (isCommitting) {
                throw new IllegalStateException("The transaction is being committed; its records are stored already.");
            }
            records.add(record);
        }

        @Override
        public void beforeCommit(boolean isReadOnly) {
            isCommitting = true;
            opened = producer.begin(records);
            Connection connection = DataSourceUtils.getConnection(dataSource);
            try {
                log.write(connection, opened.stream().map(half -> half.id()).toList());
            } catch (SQLException error) {
                throw new RolledBackException(error); // an exception makes Spring roll back
            } finally {
                DataSourceUtils.releaseConnection(connection, dataSource);
            }
        }

        @Override
        public void afterCompletion(int status) {
            TransactionSynchronizationManager.unbindResourceIfPossible(CheckbackTemplate.this);
            if (status == STATUS_UNKNOWN) {
                return; // no op: a check finds in the log how it ended
            }
            LocalTransactionState state = status == STATUS_COMMITTED
                    ? LocalTransactionState.COMMIT_MESSAGE
                    : LocalTransactionState.ROLLBACK_MESSAGE;
            opened.forEach(half -> half.end(state));
        }

        @Override
        public void suspend() {
            TransactionSynchronizationManager.unbindResourceIfPossible(CheckbackTemplate.this);
        }

        @Override
        public void resume() {
            TransactionSynchronizationManager.bindResource(CheckbackTemplate.this, this);
        }

        @Override
        public void savepoint(Object savepoint) {
            savepoints.push(new Savepoint(savepoint, records.size()));
        }

        @Override
        public void savepointRollback(Object savepoint) {
            // A savepoint from before the first record: all records are rolled back.
            int kept = savepoints.stream()
                    .filter(begun -> begun.key().equals(savepoint))
                    .mapToInt(Savepoint::records)
                    .findFirst()
                    .orElse(0);
            records.subList(kept, records.size()).clear();
        }

        @Override
        public int getOrder() {
            return Integer.MAX_VALUE; // other synchronizations may still send in their beforeCommit
        }
    }
}
