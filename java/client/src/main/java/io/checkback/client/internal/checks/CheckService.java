package io.checkback.client.internal.checks;

import io.checkback.client.CheckRequest;
import io.checkback.client.CheckbackConfig;
import io.checkback.client.InvalidMessageException;
import io.checkback.client.internal.ClientMetrics;
import io.checkback.client.internal.ClientMetrics.Event;
import io.checkback.client.internal.records.Records;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.InterruptException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads the check topic of a group, and has each request answered by a pool of threads. An offset is
 * committed once the answer is on the op topic, so a rebalance or a restart loses no request; at worst
 * one is answered twice, which the pipeline ignores.
 */
public final class CheckService {
    private static final Logger LOG = LoggerFactory.getLogger(CheckService.class);
    private static final int AT_ONCE_MAX = 100;
    private static final Duration POLL = Duration.ofMillis(100);
    private static final long PAUSE_AFTER_ERROR_MS = 1_000;
    private static final long CLOSE_MS = 1_000;

    private final Function<String, Consumer<byte[], byte[]>> openConsumer;
    private final String topic;
    private final CheckAnswers answers;
    private final ClientMetrics metrics;
    private final CountDownLatch stopping;
    private final CountDownLatch answered = new CountDownLatch(1);
    private final Map<Integer, CheckOffsets> offsets = new HashMap<>();
    private final AtomicInteger working = new AtomicInteger();
    private final int queueSize;
    private final int atOnceMax;
    private final ThreadPoolExecutor pool;
    private final Thread reader;
    private String instanceName;
    private Consumer<byte[], byte[]> consumer;
    private boolean isPaused;

    public CheckService(
            Function<String, Consumer<byte[], byte[]>> openConsumer,
            String topic,
            CheckAnswers answers,
            ClientMetrics metrics,
            CheckbackConfig config,
            CountDownLatch stopping) {
        this.openConsumer = openConsumer;
        this.topic = topic;
        this.answers = answers;
        this.metrics = metrics;
        this.stopping = stopping;
        this.queueSize = config.getInt(CheckbackConfig.CHECK_QUEUE_SIZE);
        this.atOnceMax = atOnceMax(config);
        this.instanceName = config.getString(CheckbackConfig.INSTANCE_NAME);
        int threads = config.getInt(CheckbackConfig.CHECK_THREADS);
        AtomicInteger number = new AtomicInteger();
        this.pool = new ThreadPoolExecutor(
                threads, threads, 0, TimeUnit.SECONDS, new LinkedBlockingQueue<>(),
                work -> daemon(work, "checkback-check-" + config.group() + "-" + number.incrementAndGet()));
        this.reader = daemon(this::run, "checkback-checks-" + config.group());
    }

    /** Returns how many requests one poll may bring. */
    public static int atOnceMax(CheckbackConfig config) {
        return Math.min(AT_ONCE_MAX, config.getInt(CheckbackConfig.CHECK_QUEUE_SIZE));
    }

    private static Thread daemon(Runnable work, String name) {
        // A callback that hangs must not keep the process from ending.
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        return thread;
    }

    /** Begins to read; throws if Kafka's consumer refuses the settings. */
    public void start() {
        consumer = openConsumer.apply(instanceName);
        reader.start();
    }

    /** Stops reading, waits for answers under way; returns how many are left running. */
    public int close(long timeoutMs) {
        long deadlineMs = System.nanoTime() / 1_000_000 + timeoutMs;
        stopping.countDown();
        pool.shutdown();
        pool.getQueue().clear(); // other processes of the group give these answers
        boolean isOwnThread = Thread.currentThread().getName().startsWith("checkback-check-");
        int own = isOwnThread ? 1 : 0;
        try {
            while (working.get() > own && System.nanoTime() / 1_000_000 < deadlineMs) {
                Thread.sleep(5);
            }
            answered.countDown();
            // Committing and leaving the group needs a moment, even if the answers used all the time.
            reader.join(Math.max(CLOSE_MS, deadlineMs - System.nanoTime() / 1_000_000));
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        } finally {
            answered.countDown();
        }
        return working.get() - own;
    }

    private void run() {
        while (stopping.getCount() > 0) {
            try {
                readUntilStopped();
            } catch (FencedInstanceIdException error) {
                // Two processes that share a name and both keep it would fence each other for ever.
                LOG.warn(
                        "Another process of the group has the instance name {}; this one reads check requests"
                                + " without a name from now on. Give each process a name of its own.",
                        instanceName);
                instanceName = "";
            } catch (RuntimeException | Error error) {
                LOG.warn("Check requests can't be read, trying again", error);
                pause(PAUSE_AFTER_ERROR_MS);
            }
        }
    }

    private void pause(long ms) {
        try {
            stopping.await(ms, TimeUnit.MILLISECONDS);
        } catch (InterruptedException error) {
            LOG.debug("Interrupted while pausing", error);
        }
    }

    private void readUntilStopped() {
        Consumer<byte[], byte[]> own = consumer == null ? openConsumer.apply(instanceName) : consumer;
        consumer = null;
        isPaused = false;
        try {
            own.subscribe(List.of(topic), new Rebalance(own));
            while (stopping.getCount() > 0) {
                readOnce(own);
            }
            answered.await();
            commit(own);
        } catch (InterruptedException | InterruptException error) {
            LOG.debug("Interrupted while reading checks", error);
        } finally {
            close(own);
            synchronized (offsets) {
                offsets.clear();
            }
        }
    }

    /** Closes a consumer; what led here, such as a fenced name, says more than an error of its last commit. */
    private static void close(Consumer<byte[], byte[]> own) {
        try {
            own.close(CloseOptions.timeout(Duration.ofMillis(CLOSE_MS)));
        } catch (KafkaException error) {
            LOG.debug("A consumer of check requests was closed with an error", error);
        }
    }

    private void readOnce(Consumer<byte[], byte[]> own) {
        boolean isFull = pool.getQueue().size() + atOnceMax > queueSize;
        if (isFull) {
            // Polling goes on while paused, or the group would take this process for dead.
            own.pause(own.assignment());
        } else if (isPaused) {
            own.resume(own.assignment());
        }
        isPaused = isFull;
        for (ConsumerRecord<byte[], byte[]> record : own.poll(POLL)) {
            takeUp(record);
        }
        commit(own);
    }

    private void takeUp(ConsumerRecord<byte[], byte[]> record) {
        metrics.add(Event.CHECK_RECEIVED);
        synchronized (offsets) {
            offsets.computeIfAbsent(record.partition(), unused -> new CheckOffsets()).begun(record.offset());
        }
        CheckRequest request;
        try {
            request = Records.checkRequest(record);
        } catch (InvalidMessageException error) {
            metrics.add(Event.CHECK_UNREADABLE);
            LOG.warn("The check request at {}/{} is skipped: {}", record.partition(), record.offset(),
                    error.getMessage());
            finished(record);
            return;
        }
        if (!pool.isShutdown()) {
            pool.execute(() -> work(record, request));
        }
    }

    private void work(ConsumerRecord<byte[], byte[]> record, CheckRequest request) {
        working.incrementAndGet();
        boolean isDone = true; // whatever goes wrong, the next request asks again
        try {
            isDone = answers.answer(request);
        } catch (InterruptedException error) {
            isDone = false;
        } catch (RuntimeException | Error error) {
            LOG.error("The check of {} was not answered", request.transactionId(), error);
        } finally {
            working.decrementAndGet();
        }
        if (isDone) {
            finished(record);
        }
    }

    private void finished(ConsumerRecord<byte[], byte[]> record) {
        synchronized (offsets) {
            CheckOffsets known = offsets.get(record.partition());
            if (known != null) {
                known.finished(record.offset());
            }
        }
    }

    private void commit(Consumer<byte[], byte[]> own) {
        Map<TopicPartition, OffsetAndMetadata> due = new HashMap<>();
        synchronized (offsets) {
            offsets.forEach((partition, known) -> {
                long reached = known.toCommit();
                if (reached >= 0) {
                    due.put(new TopicPartition(topic, partition), new OffsetAndMetadata(reached));
                }
            });
        }
        if (due.isEmpty()) {
            return;
        }
        try {
            own.commitSync(due);
        } catch (FencedInstanceIdException | InterruptException error) {
            throw error;
        } catch (KafkaException error) {
            LOG.info("Answered checks are not committed yet: {}", error.toString());
            return;
        }
        synchronized (offsets) {
            due.forEach((place, reached) -> {
                CheckOffsets known = offsets.get(place.partition());
                if (known != null) {
                    known.committed(reached.offset());
                }
            });
        }
    }

    /** Commits what is answered before a partition goes, so that its next owner does not answer again. */
    private final class Rebalance implements ConsumerRebalanceListener {
        private final Consumer<byte[], byte[]> own;

        Rebalance(Consumer<byte[], byte[]> own) {
            this.own = own;
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            LOG.info("Given {} partitions of {}", partitions.size(), topic);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            if (!partitions.isEmpty()) {
                commit(own);
            }
            onPartitionsLost(partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            synchronized (offsets) {
                partitions.forEach(partition -> offsets.remove(partition.partition()));
            }
        }
    }
}
