package io.checkback.client.internal;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.checkback.client.SendException;
import io.checkback.client.SendException.Kind;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Follows what the pipeline announces: whether it refuses new transactions. While the brokers do not
 * answer, the last known status counts; without one, every transaction is tried.
 */
public final class StatusWatch {
    private static final Logger LOG = LoggerFactory.getLogger(StatusWatch.class);
    private static final Duration POLL = Duration.ofMillis(500);
    private static final Pattern REJECTS = Pattern.compile("\"reject_transactions\"\\s*:\\s*(true|false)\\s*[,}]");

    private final Consumer<byte[], byte[]> consumer;
    private final TopicPartition place;
    private final Thread thread = new Thread(this::follow, "checkback-status");
    private volatile boolean isRejecting;
    private volatile boolean isStopping;

    public StatusWatch(Consumer<byte[], byte[]> consumer, String topic) {
        this.consumer = consumer;
        this.place = new TopicPartition(topic, 0);
        thread.setDaemon(true);
    }

    /** Reads the status, then follows the topic; returns without one if the brokers take too long. */
    public void start(long timeoutMs) {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
        consumer.assign(List.of(place));
        try {
            consumer.seekToBeginning(List.of(place));
            long end = consumer.endOffsets(List.of(place)).get(place);
            while (consumer.position(place) < end && System.nanoTime() - deadline < 0) {
                consumer.poll(POLL).forEach(this::take);
            }
        } catch (KafkaException error) {
            LOG.info("The pipeline's status is not known: {}", error.toString());
        }
        thread.start();
    }

    /**
     * Refuses a transaction that the pipeline would refuse.
     *
     * @throws SendException the pipeline said that it refuses new transactions; nothing was sent
     */
    public void requireAccepting() {
        if (isRejecting) {
            throw new SendException(
                    Kind.REFUSED, "",
                    "The pipeline refuses new transactions (reject_transactions). Send again when it takes them:"
                            + " nothing was stored, the local transaction did not run.",
                    null);
        }
    }

    /** Stops following. */
    public void close(long timeoutMs) {
        isStopping = true;
        try {
            thread.join(Math.max(1, timeoutMs));
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private void follow() {
        while (!isStopping) {
            try {
                consumer.poll(POLL).forEach(this::take);
            } catch (RuntimeException error) {
                LOG.info("The pipeline's status can't be read, trying again: {}", error.toString());
                pause();
            }
        }
        consumer.close(CloseOptions.timeout(Duration.ofSeconds(1)));
    }

    private void pause() {
        try {
            Thread.sleep(POLL.toMillis());
        } catch (InterruptedException error) {
            isStopping = true;
        }
    }

    private void take(ConsumerRecord<byte[], byte[]> record) {
        // A record that can't be read says nothing; what was known stays.
        String json = record.value() == null ? "" : new String(record.value(), UTF_8);
        Matcher rejects = REJECTS.matcher(json);
        if (rejects.find()) {
            isRejecting = Boolean.parseBoolean(rejects.group(1));
        }
    }
}
