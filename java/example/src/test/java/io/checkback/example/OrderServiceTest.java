package io.checkback.example;

import static io.checkback.client.TestBroker.bodies;
import static io.checkback.client.TestBroker.eventually;
import static io.checkback.client.TestBroker.texts;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.checkback.client.CheckbackProducer;
import io.checkback.client.TestBroker;
import io.checkback.client.TopicNotFoundException;
import io.checkback.client.jdbc.JdbcTransactionLog;
import io.checkback.example.OrderService.Orders;
import io.checkback.spring.CheckbackTemplate;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import javax.sql.DataSource;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.boot.SpringApplication;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.dao.DuplicateKeyException;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.support.DefaultTransactionStatus;
import org.springframework.transaction.support.TransactionSynchronization;
import org.springframework.transaction.support.TransactionSynchronizationManager;
import org.springframework.transaction.support.TransactionTemplate;

class OrderServiceTest {
    private final TestBroker broker = TestBroker.shared();
    private String prefix;
    private ConfigurableApplicationContext service;
    private Orders orders;
    private CheckbackTemplate<String, String> messages;
    private TransactionTemplate transactions;

    @BeforeEach
    @SuppressWarnings("unchecked")
    void start() {
        prefix = broker.topics("paid");
        service = SpringApplication.run(
                OrderService.class,
                "--kafka.bootstrap-servers=" + broker.bootstrapServers(), "--checkback.topic-prefix=" + prefix,
                "--orders.topic=" + prefix + "paid", "--spring.main.banner-mode=off",
                "--spring.datasource.url=jdbc:h2:mem:" + prefix + ";DB_CLOSE_DELAY=-1");
        orders = service.getBean(Orders.class);
        messages = service.getBean(CheckbackTemplate.class);
        transactions = new TransactionTemplate(service.getBean(PlatformTransactionManager.class));
    }

    @AfterEach
    void stop() {
        service.close();
    }

    private ProducerRecord<String, String> paid(String order) {
        return new ProducerRecord<>(prefix + "paid", order, order);
    }

    private List<String> halves() {
        return bodies(broker.read(prefix + "RMQ_SYS_TRANS_HALF_TOPIC"));
    }

    private List<String> verdicts(int count) throws Exception {
        var ops = eventually(
                () -> broker.read(prefix + "RMQ_SYS_TRANS_OP_HALF_TOPIC"), found -> found.size() >= count);
        return texts(ops, "COMMIT_OR_ROLLBACK").stream().sorted().toList();
    }

    private List<String> log() {
        return service.getBean(JdbcTemplate.class)
                .queryForList("SELECT state FROM checkback_transaction", String.class);
    }

    @Test
    void messageFollowsTheTransactionOfTheCaller() throws Exception {
        orders.pay("order-1", 4_200);
        assertThrows(IllegalArgumentException.class, () -> orders.pay("order-2", 0));
        assertThrows(DuplicateKeyException.class, () -> orders.pay("order-1", 1));

        assertEquals(List.of("8"), verdicts(1));
        assertEquals(List.of("4200 cents"), halves());
        assertEquals(List.of("1"), log());
    }

    @Test
    void commitThatFailsIsRolledBackAndSaid() throws Exception {
        assertThrows(
                TopicNotFoundException.class,
                () -> messages.send(new ProducerRecord<>("no-such-topic", "1"), () -> 1));
        // The log's row is refused, as where a check was quicker.
        service.getBean(JdbcTemplate.class).execute("ALTER TABLE checkback_transaction ADD CHECK (state = 2)");
        assertThrows(RuntimeException.class, () -> messages.send(paid("late"), () -> 1));

        assertEquals(List.of("12"), verdicts(1));
        assertEquals(List.of("late"), halves());
        assertEquals(List.of(), log());
    }

    @Test
    void recordsOfOneTransactionAreStoredTogether() throws Exception {
        TransactionTemplate own = nested(TransactionDefinition.PROPAGATION_REQUIRES_NEW);
        TransactionTemplate savepoint = nested(TransactionDefinition.PROPAGATION_NESTED);
        var seen = new ArrayList<List<String>>();
        transactions.executeWithoutResult(status -> {
            messages.send(paid("1"));
            messages.send(paid("2"), () -> "joined");
            seen.add(halves());
            own.executeWithoutResult(other -> messages.send(paid("own")));
            seen.add(halves());
            savepoint.executeWithoutResult(inner -> {
                messages.send(paid("taken back"));
                inner.setRollbackOnly();
            });
        });

        assertEquals(List.of(List.of(), List.of("own")), seen);
        assertEquals(List.of("8", "8", "8"), verdicts(3));
        assertEquals(List.of("1", "2", "own"), halves());
        assertEquals(List.of("1", "1", "1"), log());
    }

    @Test
    void synchronizationsMaySendUntilTheCommit() throws Exception {
        var late = new ArrayList<Exception>();
        transactions.executeWithoutResult(status -> during(phase -> {
            switch (phase) {
                case "before commit", "before completion" -> messages.send(paid(phase));
                default -> late.add(assertThrows(IllegalStateException.class, () -> messages.send(paid(phase))));
            }
        }));

        assertEquals(List.of("8", "8"), verdicts(2));
        assertEquals(List.of("before commit", "before completion"), halves());
        assertEquals(2, late.size());
    }

    private static void during(Consumer<String> work) {
        TransactionSynchronizationManager.registerSynchronization(new TransactionSynchronization() {
            @Override
            public void beforeCommit(boolean isReadOnly) {
                work.accept("before commit");
            }

            @Override
            public void beforeCompletion() {
                work.accept("before completion");
            }

            @Override
            public void afterCommit() {
                work.accept("after commit");
            }

            @Override
            public void afterCompletion(int status) {
                work.accept("after completion");
            }
        });
    }

    @Test
    void transactionThatBeginsAfterARollbackHasItsOwnRecords() throws Exception {
        TransactionTemplate own = nested(TransactionDefinition.PROPAGATION_REQUIRES_NEW);
        transactions.executeWithoutResult(status -> {
            during(phase -> {
                if (phase.equals("after completion")) {
                    own.executeWithoutResult(other -> messages.send(paid("failed")));
                }
            });
            messages.send(paid("rolled back"));
            status.setRollbackOnly();
        });

        assertEquals(List.of("8"), verdicts(1));
        assertEquals(List.of("failed"), halves());
    }

    @Test
    void transactionOfAnotherManagerIsRefused() {
        DataSource database = service.getBean(DataSource.class);
        var other = new TransactionTemplate(new DataSourceTransactionManager(database));
        assertThrows(
                IllegalStateException.class, () -> other.executeWithoutResult(status -> messages.send(paid("1"))));
    }

    @Test
    void commitThatFailsIsLeftToAcheck() throws Exception {
        DataSource database = service.getBean(DataSource.class);
        Map<String, Object> settings = broker.settings(prefix, "of-a-lost-commit");
        var producer = new CheckbackProducer<>(settings, new StringSerializer(), new StringSerializer());
        var manager = new DataSourceTransactionManager(database) {
            @Override
            protected void doCommit(DefaultTransactionStatus status) {
                super.doCommit(status);
                throw new IllegalStateException("The answer to the commit was lost.");
            }
        };
        var template = new CheckbackTemplate<>(producer, new JdbcTransactionLog(database), database, manager);
        producer.start();
        assertThrows(IllegalStateException.class, () -> template.send(paid("1"), () -> 1));

        assertEquals(0, producer.shutdown());
        assertEquals(List.of("1"), log());
        assertEquals(List.of(), broker.read(prefix + "RMQ_SYS_TRANS_OP_HALF_TOPIC"));
    }

    private TransactionTemplate nested(int propagation) {
        TransactionTemplate made = new TransactionTemplate(service.getBean(PlatformTransactionManager.class));
        made.setPropagationBehavior(propagation);
        return made;
    }

    @Test
    void thereHasToBeATransactionThatWrites() {
        assertThrows(IllegalStateException.class, () -> messages.send(paid("1")));
        transactions.setReadOnly(true);
        assertThrows(
                IllegalStateException.class,
                () -> transactions.executeWithoutResult(status -> messages.send(paid("1"))));
    }
}
