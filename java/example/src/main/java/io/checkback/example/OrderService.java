package io.checkback.example;

import io.checkback.client.CheckbackConfig;
import io.checkback.client.CheckbackProducer;
import io.checkback.client.jdbc.JdbcTransactionLog;
import io.checkback.spring.CheckbackTemplate;
import java.sql.SQLException;
import java.util.Map;
import javax.sql.DataSource;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.stereotype.Service;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.annotation.Transactional;

/** Pays orders in a database, and announces each paid order by a message on Kafka. */
@SpringBootApplication
public class OrderService {
    public static void main(String[] arguments) {
        SpringApplication.run(OrderService.class, arguments);
    }

    @Bean
    CheckbackProducer<String, String> producer(
            @Value("${kafka.bootstrap-servers}") String servers, @Value("${checkback.topic-prefix}") String prefix) {
        Map<String, Object> settings = Map.of(
                CheckbackConfig.BOOTSTRAP_SERVERS, servers,
                CheckbackConfig.TOPIC_PREFIX, prefix,
                CheckbackConfig.GROUP, "order-service");
        return new CheckbackProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    @Bean
    CheckbackTemplate<String, String> template(
            CheckbackProducer<String, String> producer, DataSource database, PlatformTransactionManager manager)
            throws SQLException {
        JdbcTransactionLog log = new JdbcTransactionLog(database);
        log.createTable();
        CheckbackTemplate<String, String> template = new CheckbackTemplate<>(producer, log, database, manager);
        producer.start(); // after the template, which makes the log answer checks
        return template;
    }

    /** What the service does for its callers. */
    @Service
    public static class Orders {
        private final JdbcTemplate database;
        private final CheckbackTemplate<String, String> messages;
        private final String topic;

        Orders(
                JdbcTemplate database,
                CheckbackTemplate<String, String> messages,
                @Value("${orders.topic}") String topic) {
            this.database = database;
            this.messages = messages;
            this.topic = topic;
        }

        /**
         * Pays an order. The message is visible if and only if this transaction commits.
         *
         * @throws IllegalArgumentException there is nothing to pay: order and message are rolled back
         */
        @Transactional
        public void pay(String order, int cents) {
            database.update("INSERT INTO orders (id, cents) VALUES (?, ?)", order, cents);
            messages.send(new ProducerRecord<>(topic, order, cents + " cents"));
            if (cents <= 0) {
                throw new IllegalArgumentException("There is nothing to pay for " + order + ".");
            }
        }
    }
}
