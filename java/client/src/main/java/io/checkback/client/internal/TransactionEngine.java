package io.checkback.client.internal;

import io.checkback.client.CheckbackConfig;
import io.checkback.client.LocalTransactionState;
import io.checkback.client.SendException;
import io.checkback.client.SendOutcome;
import io.checkback.client.internal.ClientMetrics.Event;
import io.checkback.client.internal.checks.CheckAnswers;
import io.checkback.client.internal.checks.CheckService;
import io.checkback.client.internal.checks.Checker;
import io.checkback.client.internal.records.OutgoingMessage;
import io.checkback.client.internal.records.PropertyNames;
import io.checkback.client.internal.records.RecordSigner;
import io.checkback.client.internal.records.RecordSize;
import io.checkback.client.internal.records.Records;
import io.checkback.client.internal.records.TopicNames;
import io.checkback.client.internal.records.Validation;
import io.checkback.client.internal.sending.BrokerClock;
import io.checkback.client.internal.sending.Half;
import io.checkback.client.internal.sending.HalfSender;
import io.checkback.client.internal.sending.InDoubtIds;
import io.checkback.client.internal.sending.OpSender;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.common.header.Header;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The transactional producer behind this client's API: half message, local transaction, op, and
 * answers to checks. Threads may share it. It can be started once.
 */
public final class TransactionEngine {
    private static final Logger LOG = LoggerFactory.getLogger(TransactionEngine.class);
    private static final Map<String, TransactionEngine> STARTED = new ConcurrentHashMap<>();
    private static final long OP_CLOSE_MS = 500;
    private static final int LOOK_MS = 5;

    private final CheckbackConfig config;
    private final Checker checker;
    private final TopicNames topics;
    private final Header group;
    private final int bodyBytesMax;
    private final long budgetNanos;
    private final ClientMetrics metrics;
    private final KafkaClients clients;
    private final BrokerClock clock = new BrokerClock();
    private final InDoubtIds inDoubt = new InDoubtIds();
    private final RecordSigner signer;
    private final int signatureBytes;
    private final AtomicInteger running = new AtomicInteger();
    private final ThreadLocal<Boolean> isInside = new ThreadLocal<>();
    private final SplittableRandom seeds = new SplittableRandom(new SecureRandom().nextLong());
    private final ThreadLocal<SplittableRandom> ids = ThreadLocal.withInitial(this::newRandom);
    private volatile State state = State.CREATED;
    private TopicFacts facts;
    private HalfSender halves;
    private OpSender ops;
    private StatusWatch status;
    private CheckService checks;

    private enum State {
        CREATED("not started"),
        RUNNING("running"),
        SHUT_DOWN("shut down");

        private final String text;

        State(String text) {
            this.text = text;
        }
    }

    /** The local transaction of a half that is stored. */
    @FunctionalInterface
    public interface Work {
        /** Runs it with the transaction id; null counts as unknown. */
        LocalTransactionState run(String transactionId) throws Exception;
    }

    public TransactionEngine(CheckbackConfig config, Checker checker) {
        this.config = config;
        this.checker = checker;
        this.topics = config.topics();
        this.group = Records.header(PropertyNames.PGROUP, config.group());
        this.bodyBytesMax = config.getInt(CheckbackConfig.MESSAGE_BYTES_MAX);
        this.budgetNanos = TimeUnit.MILLISECONDS.toNanos(config.getInt(CheckbackConfig.SEND_TIMEOUT_MS));
        String clientId = config.group() + "@" + ProcessHandle.current().pid() + "-"
                + UUID.randomUUID().toString().substring(0, 8);
        this.clients = new KafkaClients(config, clientId);
        this.signer = config.getString(CheckbackConfig.ACCESS_KEY).isEmpty()
                ? null
                : new RecordSigner(
                        config.getString(CheckbackConfig.ACCESS_KEY),
                        config.getPassword(CheckbackConfig.SECRET_KEY).value(),
                        config.getString(CheckbackConfig.SIGNATURE_ALGORITHM),
                        config.getString(CheckbackConfig.BORN_HOST),
                        clock::nowMs);
        this.signatureBytes = signer == null ? 0 : signer.bytesMax();
        this.metrics = new ClientMetrics(config, clientId);
    }

    /** Returns what is counted. */
    public ClientMetrics metrics() {
        return metrics;
    }

    /**
     * Connects, creates the group's check topic unless it exists, and begins to answer checks.
     *
     * @throws IllegalStateException it was started before, or another producer of the group runs in this JVM
     * @throws io.checkback.client.BrokerException Kafka can't be reached or is not set up
     */
    public synchronized void start() {
        if (state != State.CREATED) {
            throw new IllegalStateException("The producer of group " + config.group() + " is " + state.text
                    + ". Make a new one; each can be started once.");
        }
        if (STARTED.putIfAbsent(place(), this) != null) {
            throw new IllegalStateException("Another producer of group " + config.group()
                    + " runs in this process. Share that one among your threads, or name another group.");
        }
        boolean isOpen = false;
        try {
            open();
            isOpen = true;
            state = State.RUNNING;
        } finally {
            if (!isOpen) {
                close(0); // a start that failed can be tried again
            }
        }
    }

    private void open() {
        metrics.report();
        facts = new TopicFacts(clients.admin(), config);
        // First: with a wrong prefix the producer would create a check topic without a reader.
        facts.requireHalfAndOp(topics);
        facts.requireRoom(topics.half(), 0);
        facts.createCheckTopic(topics.check(config.group()), bodyBytesMax);
        halves = new HalfSender(
                clients.halfProducer(), topics.half(), inDoubt, metrics, clock, signer, this::newId, budgetNanos,
                1 + config.getInt(CheckbackConfig.SEND_RETRIES));
        ops = new OpSender(clients.opProducer(), topics.op(), group, metrics, signer);
        halves.warmUp();
        ops.warmUp();
        int startMs = config.getInt(CheckbackConfig.START_TIMEOUT_MS);
        if (isThere(topics.status())) {
            status = new StatusWatch(clients.statusConsumer(), topics.status());
            status.start(startMs);
        }
        String checkTopic = topics.check(config.group());
        CountDownLatch stopping = new CountDownLatch(1);
        CheckAnswers answers = new CheckAnswers(
                checker, inDoubt, ops, metrics, clock, TimeUnit.NANOSECONDS.toMillis(budgetNanos), stopping);
        checks = new CheckService(
                instance -> clients.checkConsumer(checkTopic, instance),
                checkTopic, answers, metrics, config, stopping);
        checks.start();
        // The first send to a topic asks for its limits: two questions.
        facts.allow(TimeUnit.NANOSECONDS.toMillis(budgetNanos) / 2);
    }

    private boolean isThere(String topic) {
        try {
            return facts.partitions(topic).isPresent();
        } catch (RuntimeException error) {
            LOG.info("The pipeline's status is not known: {}", error.getMessage());
            return false;
        }
    }

    /**
     * Stores a half message, runs the local transaction, and says how it ended.
     *
     * @throws io.checkback.client.InvalidMessageException the message can't be sent as it is
     * @throws io.checkback.client.TopicNotFoundException its topic does not exist
     * @throws io.checkback.client.SendException the half is not, or not certainly, stored
     * @throws IllegalStateException not started, or shut down
     */
    public SendOutcome send(OutgoingMessage message, Work work) {
        running.incrementAndGet();
        isInside.set(true);
        try {
            Half half = prepare(message);
            halves.store(half);
            LocalOutcome outcome = LocalOutcome.of(LocalTransactionState.ROLLBACK_MESSAGE);
            if (half.isSafe()) {
                outcome = LocalOutcome.of(() -> work.run(half.transactionId()));
                if (outcome.exception() != null) {
                    metrics.add(Event.LISTENER_FAILED);
                    LOG.error("The local transaction of {} failed", half.transactionId(), outcome.exception());
                }
            }
            return end(half, outcome);
        } finally {
            isInside.remove();
            running.decrementAndGet();
        }
    }

    /**
     * Stores half messages together; the caller runs one local transaction for all, then ends each, and calls
     * {@link #ended} for each.
     *
     * @throws RuntimeException as {@link #send}; then none of them may be committed
     */
    public List<Half> storeAll(List<OutgoingMessage> messages) {
        running.addAndGet(messages.size());
        boolean isStored = false;
        try {
            List<Half> prepared = new ArrayList<>(messages.size());
            for (OutgoingMessage message : messages) {
                prepared.add(prepare(message));
            }
            halves.storeAll(prepared);
            requireSafe(prepared);
            isStored = true;
            return prepared;
        } finally {
            if (!isStored) {
                running.addAndGet(-messages.size());
            }
        }
    }

    private void requireSafe(List<Half> stored) {
        Optional<Half> unsafe = stored.stream().filter(half -> !half.isSafe()).findFirst();
        if (unsafe.isPresent()) {
            stored.stream().filter(Half::isSafe).forEach(halves::doubt);
            throw new SendException(
                    SendException.Kind.IN_DOUBT, unsafe.get().transactionId(),
                    "Too few replicas have the half message. The local transaction must not commit.", null);
        }
    }

    /** Notes that a half of {@link #storeAll} is ended, or left to a check: a shutdown waits for it no more. */
    public void ended() {
        running.decrementAndGet();
    }

    /** Sends the op of a half that is stored. */
    public SendOutcome end(Half half, LocalOutcome outcome) {
        metrics.add(outcome.event());
        if (half.isSafe()) {
            ops.end(half, outcome);
        }
        return half.sendOutcome(outcome);
    }

    private Half prepare(OutgoingMessage message) {
        requireRunning();
        if (status != null) {
            status.requireAccepting();
        }
        Validation.requireMessage(message, topics, bodyBytesMax);
        if (signer != null) {
            Validation.requireSignable(message);
        }
        if (message.properties().stream().anyMatch(header -> header.key().equals(PropertyNames.DELAY))) {
            metrics.add(Event.DELAY_DROPPED);
            LOG.warn("The delay level of a transactional message is dropped: {}", message.topic());
        }
        String transactionId = newId();
        List<Header> headers = Records.half(group, transactionId, message);
        int bytes = RecordSize.bytesMax(message.key(), message.body(), headers) + signatureBytes;
        facts.requireRoom(message.topic(), bytes);
        facts.requireRoom(topics.half(), bytes);
        return new Half(message, headers, transactionId, System.nanoTime() + budgetNanos);
    }

    /**
     * Stops taking messages, waits for what is running, closes; does nothing a second time.
     *
     * @return how many sends and answers still ran when the time was over; checks ask how they ended
     */
    public synchronized int shutdown() {
        State was = state;
        state = State.SHUT_DOWN;
        if (was != State.RUNNING) {
            return 0;
        }
        int left = close(config.getInt(CheckbackConfig.SHUTDOWN_TIMEOUT_MS));
        if (left > 0) {
            LOG.warn(
                    "The producer of group {} was shut down while {} sends or check answers ran", config.group(), left);
        }
        return left;
    }

    private int close(int timeoutMs) {
        long deadlineMs = System.nanoTime() / 1_000_000 + timeoutMs;
        int left = waitUntilIdle(deadlineMs);
        if (checks != null) {
            left += checks.close(leftMs(deadlineMs));
        }
        if (status != null) {
            status.close(leftMs(deadlineMs));
        }
        // Senders that are still inside get an error of Kafka's closed producer.
        if (ops != null) {
            ops.close(Duration.ofMillis(Math.max(OP_CLOSE_MS, leftMs(deadlineMs))));
        }
        if (halves != null) {
            halves.close(Duration.ofMillis(leftMs(deadlineMs)));
        }
        if (facts != null) {
            facts.close();
        }
        metrics.close();
        checks = null;
        status = null;
        STARTED.remove(place(), this);
        return left;
    }

    private int waitUntilIdle(long deadlineMs) {
        int own = isInside.get() == null ? 0 : 1; // a local transaction may shut its producer down
        try {
            while (running.get() > own && leftMs(deadlineMs) > 0) {
                Thread.sleep(LOOK_MS);
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
        return running.get() - own;
    }

    private static long leftMs(long deadlineMs) {
        return Math.max(0, deadlineMs - System.nanoTime() / 1_000_000);
    }

    private void requireRunning() {
        if (state != State.RUNNING) {
            throw new IllegalStateException("The producer of group " + config.group() + " is " + state.text
                    + ". Call start() first, and make a new one after shutdown().");
        }
    }

    private String place() {
        return config.bootstrapServers() + " " + topics.check(config.group());
    }

    private SplittableRandom newRandom() {
        synchronized (seeds) {
            return seeds.split();
        }
    }

    private String newId() {
        SplittableRandom random = ids.get();
        long high = random.nextLong();
        long low = random.nextLong();
        char[] digits = new char[32];
        for (int at = 0; at < 16; at++) {
            digits[15 - at] = Character.forDigit((int) (high >>> (4 * at)) & 15, 16);
            digits[31 - at] = Character.forDigit((int) (low >>> (4 * at)) & 15, 16);
        }
        return new String(digits);
    }
}
