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
import java.util.Optional;
import java.util.function.Supplier;
import javax.sql.DataSource;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.springframework.jdbc.datasource.DataSourceUtils;
import org.springframework.transaction.ConfigurableTransactionManager;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.TransactionExecution;
import org.springframework.transaction.TransactionExecutionListener;
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
     * @throws IllegalArgumentException the manager does not say when transactions begin and commit
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
        if (!(manager instanceof ConfigurableTransactionManager configurable)) {
            throw new IllegalArgumentException("The transaction manager takes no listeners: give one of Spring's own.");
        }
        configurable.addListener(new Listener());
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
        joined().orElseThrow(() -> new IllegalStateException("The active transaction is not one of the template's"
                        + " manager."))
                .add(record);
    }

    /** Finds the records of the transaction whose synchronizations are active; none in another manager's. */
    @SuppressWarnings("unchecked") // it is of this template, so of its types
    private Optional<Joined> joined() {
        for (TransactionSynchronization one : TransactionSynchronizationManager.getSynchronizations()) {
            if (one instanceof CheckbackTemplate<?, ?>.Joined joined && joined.template() == this) {
                return Optional.of((Joined) joined);
            }
        }
        return Optional.empty();
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

    /**
     * Gives each transaction of the manager its records, and stores them last of all before its commit: other
     * synchronizations may send in their beforeCommit and beforeCompletion.
     */
    private final class Listener implements TransactionExecutionListener {
        @Override
        public void afterBegin(TransactionExecution transaction, Throwable failure) {
            if (failure == null && TransactionSynchronizationManager.isSynchronizationActive()) {
                TransactionSynchronizationManager.registerSynchronization(new Joined());
            }
        }

        @Override
        public void beforeCommit(TransactionExecution transaction) {
            // Not at the end of a savepoint.
            if (transaction.isNewTransaction() && TransactionSynchronizationManager.isSynchronizationActive()) {
                joined().ifPresent(Joined::store);
            }
        }
    }

    /** The records of one Spring transaction. */
    private final class Joined implements TransactionSynchronization {
        private final List<ProducerRecord<K, V>> records = new ArrayList<>();
        private final Deque<Savepoint> savepoints = new ArrayDeque<>();
        private List<CheckbackProducer<K, V>.OpenTransaction> opened = List.of();
        private boolean isCommitting;
        private boolean isWritten;

        private record Savepoint(Object key, int records) {}

        void add(ProducerRecord<K, V> record) {
            if (isCommitting) {
                throw new IllegalStateException("The transaction is being committed; its records are stored already.");
            }
            records.add(record);
        }

        private CheckbackTemplate<K, V> template() {
            return CheckbackTemplate.this;
        }

        private void store() {
            isCommitting = true;
            if (records.isEmpty()) {
                return;
            }
            opened = producer.begin(records);
            Connection connection = DataSourceUtils.getConnection(dataSource);
            try {
                log.write(connection, opened.stream().map(half -> half.id()).toList());
                isWritten = true;
            } catch (SQLException error) {
                throw new RolledBackException(error); // an exception makes Spring roll back
            } finally {
                DataSourceUtils.releaseConnection(connection, dataSource);
            }
        }

        @Override
        public void afterCompletion(int status) {
            if (status == STATUS_COMMITTED) {
                opened.forEach(half -> half.end(LocalTransactionState.COMMIT_MESSAGE));
            } else if (isWritten) {
                // The commit itself failed. Spring calls some of that rolled back, and the database may have
                // committed: a check finds in the log how it ended.
                opened.forEach(half -> half.leaveToCheck());
            } else {
                opened.forEach(half -> half.end(LocalTransactionState.ROLLBACK_MESSAGE));
            }
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
    }
}
