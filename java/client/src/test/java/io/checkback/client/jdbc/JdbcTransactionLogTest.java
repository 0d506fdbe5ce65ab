package io.checkback.client.jdbc;

import static io.checkback.client.LocalTransactionState.COMMIT_MESSAGE;
import static io.checkback.client.LocalTransactionState.ROLLBACK_MESSAGE;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.checkback.client.LocalTransactionState;
import io.checkback.client.RolledBackException;
import io.checkback.client.WireFormat;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Clock;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import javax.sql.DataSource;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * On H2, on PostgreSQL and MariaDB where their programs are, and on the databases that CHECKBACK_TEST_JDBC
 * names, separated by blanks.
 */
class JdbcTransactionLogTest {
    private final String suffix = UUID.randomUUID().toString().substring(0, 8);

    static Stream<String> databases() {
        List<String> urls = new ArrayList<>(List.of("jdbc:h2:mem:" + UUID.randomUUID() + ";DB_CLOSE_DELAY=-1"));
        urls.addAll(DatabaseServer.urls());
        String more = System.getenv("CHECKBACK_TEST_JDBC");
        if (more != null && !more.isBlank()) {
            urls.addAll(List.of(more.strip().split("\\s+")));
        }
        return urls.stream();
    }

    private static DataSource dataSource(String url) {
        return dataSource(() -> DriverManager.getConnection(url));
    }

    private static DataSource dataSource(Callable<Connection> open) {
        // The one method that the log calls; the interface has eight.
        return (DataSource) Proxy.newProxyInstance(
                JdbcTransactionLogTest.class.getClassLoader(), new Class<?>[] {DataSource.class},
                (proxy, method, arguments) -> open.call());
    }

    private JdbcTransactionLog log(String url) throws SQLException {
        Clock clock = Clock.fixed(Instant.ofEpochMilli(1_700_000_000_000L), ZoneOffset.UTC);
        JdbcTransactionLog log = new JdbcTransactionLog(dataSource(url), "log_" + suffix, clock);
        log.createTable();
        log.createTable();
        execute(url, "CREATE TABLE business_" + suffix + " (id VARCHAR(64) PRIMARY KEY)");
        return log;
    }

    private static void execute(String url, String sql) throws SQLException {
        try (Connection connection = DriverManager.getConnection(url);
                Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    private void insert(Connection connection, String id) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("INSERT INTO business_" + suffix + " VALUES ('" + id + "')");
        }
    }

    private List<String> rows(String url, String sql) throws SQLException {
        try (Connection connection = DriverManager.getConnection(url);
                Statement statement = connection.createStatement();
                ResultSet found = statement.executeQuery(sql)) {
            List<String> rows = new ArrayList<>();
            while (found.next()) {
                rows.add(found.getString(1) + "/" + found.getString(2));
            }
            return rows;
        }
    }

    @ParameterizedTest
    @MethodSource("databases")
    void businessRowsAndLogAreOne(String url) throws Exception {
        JdbcTransactionLog log = log(url);

        assertEquals(COMMIT_MESSAGE, log.run("paid", connection -> insert(connection, "order-1")));
        assertThrows(RolledBackException.class, () -> log.run("failed", connection -> insert(connection, "order-1")));

        assertEquals(COMMIT_MESSAGE, log.outcome("paid"));
        assertEquals(ROLLBACK_MESSAGE, log.outcome("failed"));
        assertEquals(ROLLBACK_MESSAGE, log.outcome("PAID"));
        assertThrows(RolledBackException.class, () -> log.run("PAID", connection -> insert(connection, "order-2")));
        assertEquals(
                List.of("order-1/1"), rows(url, "SELECT id, 1 FROM business_" + suffix));
        assertEquals(
                List.of("PAID/2", "failed/2", "paid/1"),
                rows(url, "SELECT transaction_id, state FROM log_" + suffix).stream().sorted().toList());
        assertEquals(0, log.forgetBefore(Instant.ofEpochMilli(1_700_000_000_000L)));
        assertEquals(3, log.forgetBefore(Instant.ofEpochMilli(1_700_000_000_001L)));
    }

    @ParameterizedTest
    @MethodSource("databases")
    void checkWaitsForALocalTransactionThatHoldsTheKey(String url) throws Exception {
        JdbcTransactionLog log = log(url);
        CountDownLatch isWriting = new CountDownLatch(1);
        CountDownLatch mayCommit = new CountDownLatch(1);
        CompletableFuture<LocalTransactionState> running = CompletableFuture.supplyAsync(() -> {
            try {
                return log.run("slow", connection -> {
                    isWriting.countDown();
                    mayCommit.await();
                });
            } catch (SQLException error) {
                throw new AssertionError(error);
            }
        });
        isWriting.await();
        CompletableFuture<LocalTransactionState> check = CompletableFuture.supplyAsync(() -> {
            try {
                return log.outcome("slow");
            } catch (SQLException error) {
                return null; // H2 gives up waiting for the key; the pipeline asks again
            }
        });
        TimeUnit.MILLISECONDS.sleep(300);
        mayCommit.countDown();

        assertEquals(COMMIT_MESSAGE, running.get());
        LocalTransactionState answered = check.get();
        assertEquals(COMMIT_MESSAGE, answered == null ? log.outcome("slow") : answered);
    }

    @ParameterizedTest
    @MethodSource("databases")
    void connectionThatCommitsByItselfIsRefused(String url) throws Exception {
        JdbcTransactionLog log = log(url);
        try (Connection connection = DriverManager.getConnection(url)) {
            assertThrows(IllegalStateException.class, () -> log.write(connection, List.of("id")));
        }
        assertThrows(
                IllegalArgumentException.class,
                () -> new JdbcTransactionLog(dataSource(url), "a; DROP TABLE b", Clock.systemUTC()));
    }

    @ParameterizedTest
    @MethodSource("databases")
    void tableIsMadeByConnectionsThatDoNotCommitByThemselves(String url) throws Exception {
        DataSource pool = dataSource(() -> {
            Connection connection = DriverManager.getConnection(url);
            connection.setAutoCommit(false);
            return connection;
        });
        new JdbcTransactionLog(pool, "log_" + suffix, Clock.systemUTC()).createTable();

        assertEquals(List.of(), rows(url, "SELECT transaction_id, state FROM log_" + suffix));
    }

    @ParameterizedTest
    @MethodSource("databases")
    void checkThatCouldSeeRowsThatRollBackIsRefused(String url) throws Exception {
        log(url);
        DataSource uncommitted = dataSource(() -> {
            Connection connection = DriverManager.getConnection(url);
            connection.setTransactionIsolation(Connection.TRANSACTION_READ_UNCOMMITTED);
            return connection;
        });
        JdbcTransactionLog log = new JdbcTransactionLog(uncommitted, "log_" + suffix, Clock.systemUTC());

        assertThrows(IllegalStateException.class, () -> log.outcome("id"));
    }

    @ParameterizedTest
    @MethodSource("databases")
    void tableIsThatOfTheDocument(String url) throws Exception {
        assertEquals(
                List.of("transaction_id", "state", "written_at_ms"),
                WireFormat.column("## The transaction log", 0));
        log(url);
        assertEquals(List.of(), rows(url, "SELECT transaction_id, state, written_at_ms FROM log_" + suffix));
    }
}
