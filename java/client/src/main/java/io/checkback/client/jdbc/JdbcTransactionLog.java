package io.checkback.client.jdbc;

import io.checkback.client.LocalTransactionState;
import io.checkback.client.RolledBackException;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.SQLIntegrityConstraintViolationException;
import java.sql.Statement;
import java.time.Clock;
import java.time.Instant;
import java.util.Collection;
import java.util.List;
import java.util.regex.Pattern;
import javax.sql.DataSource;

/**
 * A table by which checks find how local transactions ended (docs/protocol.md, The transaction log; the
 * Python client writes the same). The local transaction inserts its transaction id beside the business
 * rows, so either all of them exist or none. A check that finds no row writes a barrier under the same
 * key: a slow local transaction then fails on its own insert. So a commit and a rollback never both happen.
 *
 * <pre>{@code
 * var log = new JdbcTransactionLog(dataSource);
 * producer.onCheck(check -> log.outcome(check.id()));
 * producer.send(record, tx -> log.run(tx.id(), connection -> orders.insert(connection, order)));
 * }</pre>
 *
 * Tested on PostgreSQL, MariaDB (by its own driver and MySQL's) and H2. Threads may share it.
 */
public final class JdbcTransactionLog {
    /** The name of the table unless another one is given. */
    public static final String TABLE = "checkback_transaction";

    private static final int COMMITTED = 1;
    private static final int BARRIER = 2;
    private static final String INTEGRITY_CLASS = "23";
    private static final Pattern TABLE_NAME = Pattern.compile("[A-Za-z_][A-Za-z0-9_.]*");

    private final DataSource dataSource;
    private final String table;
    private final Clock clock;

    /** The business rows of a local transaction. */
    @FunctionalInterface
    public interface Work {
        /**
         * Writes them through the connection, and leaves the commit to the log.
         *
         * @throws Exception anything: the database transaction is rolled back
         */
        void run(Connection connection) throws Exception;
    }

    /** @param dataSource the database of the business rows */
    public JdbcTransactionLog(DataSource dataSource) {
        this(dataSource, TABLE, Clock.systemUTC());
    }

    /**
     * @param dataSource the database of the business rows
     * @param table the log's table, beside the business tables, perhaps with its schema
     * @param clock says when rows are written
     * @throws IllegalArgumentException the table's name has other characters than letters, digits, _ and .
     */
    public JdbcTransactionLog(DataSource dataSource, String table, Clock clock) {
        if (!TABLE_NAME.matcher(table).matches()) {
            throw new IllegalArgumentException("The table's name '" + table + "' has other characters than letters,"
                    + " digits, '_' and '.'.");
        }
        this.dataSource = dataSource;
        this.table = table;
        this.clock = clock;
    }

    /**
     * Creates the table and its index unless the table exists.
     *
     * @throws SQLException the database refused
     */
    public void createTable() throws SQLException {
        try (Connection connection = dataSource.getConnection();
                Statement statement = connection.createStatement()) {
            if (exists(statement)) {
                return;
            }
            // Both compare texts without case unless the column says otherwise.
            String product = connection.getMetaData().getDatabaseProductName();
            boolean ignoresCase = product.equals("MySQL") || product.equals("MariaDB");
            statement.execute("CREATE TABLE " + table + " (transaction_id VARCHAR(64)"
                    + (ignoresCase ? " CHARACTER SET ascii COLLATE ascii_bin" : "") + " NOT NULL PRIMARY KEY,"
                    + " state SMALLINT NOT NULL, written_at_ms BIGINT NOT NULL)");
            String index = table.substring(table.lastIndexOf('.') + 1) + "_written_at";
            statement.execute("CREATE INDEX " + index + " ON " + table + " (written_at_ms)");
            if (!connection.getAutoCommit()) {
                connection.commit();
            }
        }
    }

    private boolean exists(Statement statement) throws SQLException {
        try (ResultSet found = statement.executeQuery("SELECT state FROM " + table + " WHERE 1 = 0")) {
            return !found.next();
        } catch (SQLException error) {
            if (!statement.getConnection().getAutoCommit()) {
                statement.getConnection().rollback(); // else PostgreSQL refuses the next statement
            }
            return false;
        }
    }

    /**
     * Runs a local transaction and logs it, in one database transaction. The log's row comes first: where a
     * check has put its barrier, nothing else is tried.
     *
     * @param transactionId UNIQ_KEY of the half
     * @param work writes the business rows
     * @return COMMIT_MESSAGE
     * @throws RolledBackException the work threw, or a check was quicker: nothing is written, for good
     * @throws SQLException the commit failed: how it ended is unknown, a check asks later
     */
    public LocalTransactionState run(String transactionId, Work work) throws SQLException {
        Connection connection;
        try {
            connection = open();
        } catch (SQLException error) {
            throw new RolledBackException(error);
        }
        try (connection) {
            try {
                write(connection, List.of(transactionId));
                work.run(connection);
            } catch (Exception error) {
                throw rolledBack(connection, error);
            }
            connection.commit();
            return LocalTransactionState.COMMIT_MESSAGE;
        }
    }

    private static RolledBackException rolledBack(Connection connection, Exception error) {
        if (error instanceof InterruptedException) {
            Thread.currentThread().interrupt();
        }
        try {
            connection.rollback();
        } catch (SQLException lost) {
            error.addSuppressed(lost); // the database rolls back what a lost connection had begun
        }
        return new RolledBackException(error);
    }

    /**
     * Writes the log's rows through a connection of the caller's, in its database transaction. If it throws,
     * the caller must roll back.
     *
     * @param connection has a database transaction; it must not commit each statement by itself
     * @param transactionIds UNIQ_KEY of each half
     * @throws SQLException a check was quicker, or the database refused
     * @throws IllegalStateException the connection commits each statement by itself
     */
    public void write(Connection connection, Collection<String> transactionIds) throws SQLException {
        if (connection.getAutoCommit()) {
            throw new IllegalStateException("The connection commits each statement by itself (autocommit). The log's"
                    + " row and the business rows are one database transaction.");
        }
        for (String id : transactionIds) {
            insert(connection, id, COMMITTED);
        }
    }

    /**
     * Returns the final outcome of a transaction; if there is none yet, makes it a rollback.
     *
     * @param transactionId UNIQ_KEY of the half
     * @return COMMIT_MESSAGE or ROLLBACK_MESSAGE; UNKNOW where the row vanished while it was looked up
     * @throws SQLException the database can't say now; the pipeline asks again
     * @throws IllegalStateException the data source's connections read uncommitted rows
     */
    public LocalTransactionState outcome(String transactionId) throws SQLException {
        int state = lookUp(transactionId);
        if (state == 0) {
            // The insert waits for a local transaction that holds the key: its commit makes it fail.
            state = putBarrier(transactionId) ? BARRIER : lookUp(transactionId);
        }
        return switch (state) {
            case COMMITTED -> LocalTransactionState.COMMIT_MESSAGE;
            case BARRIER -> LocalTransactionState.ROLLBACK_MESSAGE;
            default -> LocalTransactionState.UNKNOW;
        };
    }

    /**
     * Deletes rows that were written before a time. A row is needed as long as a check may come: for the
     * pipeline's half_retention_ms, 3 days by default.
     *
     * @return how many rows
     * @throws SQLException the database refused
     */
    public int forgetBefore(Instant time) throws SQLException {
        String delete = "DELETE FROM " + table + " WHERE written_at_ms < ?";
        try (Connection connection = open();
                PreparedStatement statement = connection.prepareStatement(delete)) {
            statement.setLong(1, time.toEpochMilli());
            int deleted = statement.executeUpdate();
            connection.commit();
            return deleted;
        }
    }

    private int lookUp(String transactionId) throws SQLException {
        String select = "SELECT state FROM " + table + " WHERE transaction_id = ?";
        try (Connection connection = open();
                PreparedStatement statement = connection.prepareStatement(select)) {
            if (connection.getTransactionIsolation() == Connection.TRANSACTION_READ_UNCOMMITTED) {
                throw new IllegalStateException("The data source's connections read uncommitted rows. A check would"
                        + " answer commit for a transaction that rolls back: set another isolation level.");
            }
            statement.setString(1, transactionId);
            try (ResultSet found = statement.executeQuery()) {
                int state = found.next() ? found.getInt(1) : 0;
                connection.commit();
                return state;
            }
        }
    }

    private boolean putBarrier(String transactionId) throws SQLException {
        try (Connection connection = open()) {
            try {
                insert(connection, transactionId, BARRIER);
                connection.commit();
                return true;
            } catch (SQLException error) {
                connection.rollback();
                if (isDuplicate(error)) {
                    return false;
                }
                throw error;
            }
        }
    }

    private static boolean isDuplicate(SQLException error) {
        String state = error.getSQLState();
        return error instanceof SQLIntegrityConstraintViolationException
                || (state != null && state.startsWith(INTEGRITY_CLASS));
    }

    private void insert(Connection connection, String transactionId, int state) throws SQLException {
        String insert = "INSERT INTO " + table + " (transaction_id, state, written_at_ms) VALUES (?, ?, ?)";
        try (PreparedStatement statement = connection.prepareStatement(insert)) {
            statement.setString(1, transactionId);
            statement.setInt(2, state);
            statement.setLong(3, clock.millis());
            statement.executeUpdate();
        }
    }

    private Connection open() throws SQLException {
        Connection connection = dataSource.getConnection();
        connection.setAutoCommit(false);
        return connection;
    }
}
