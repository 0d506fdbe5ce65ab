package io.checkback.client.rocketmq;

import io.checkback.client.CheckRequest;
import io.checkback.client.CheckbackConfig;
import io.checkback.client.CheckbackException;
import io.checkback.client.LocalTransactionState;
import io.checkback.client.SendOutcome;
import io.checkback.client.internal.TransactionEngine;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import org.apache.kafka.common.KafkaException;

/**
 * RocketMQ's transactional producer on Kafka. To port a program, change the imports and the address:
 * {@link #setNamesrvAddr} takes Kafka's brokers. Threads may share it.
 */
public class TransactionMQProducer {
    private final Map<String, Object> settings = new HashMap<>();
    private TransactionListener listener;
    private TransactionEngine engine;
    private String halfTopic;

    /** @param producerGroup all processes of one application share it: any of them answers checks */
    public TransactionMQProducer(String producerGroup) {
        settings.put(CheckbackConfig.GROUP, producerGroup == null ? "" : producerGroup);
    }

    /**
     * @param producerGroup all processes of one application share it: any of them answers checks
     * @param topics not used: Kafka's producers learn topics as they send
     */
    public TransactionMQProducer(String producerGroup, Collection<String> topics) {
        this(producerGroup);
    }

    /** Sets Kafka's brokers, host:port, separated by commas. */
    public void setNamesrvAddr(String bootstrapServers) {
        set(CheckbackConfig.BOOTSTRAP_SERVERS, bootstrapServers);
    }

    /** Sets the listener that runs local transactions and answers checks. */
    public void setTransactionListener(TransactionListener transactionListener) {
        this.listener = transactionListener;
    }

    /** Sets the time for all tries of one send together, in milliseconds. */
    public void setSendMsgTimeout(int timeoutMs) {
        set(CheckbackConfig.SEND_TIMEOUT_MS, timeoutMs);
    }

    /** Sets the number of tries after the first one. */
    public void setRetryTimesWhenSendFailed(int tries) {
        set(CheckbackConfig.SEND_RETRIES, tries);
    }

    /** Sets the size of the largest body, in bytes. */
    public void setMaxMessageSize(int bytes) {
        set(CheckbackConfig.MESSAGE_BYTES_MAX, bytes);
    }

    /** Sets the number of threads that answer checks. */
    public void setCheckThreadPoolMaxSize(int threads) {
        set(CheckbackConfig.CHECK_THREADS, threads);
    }

    /** Sets how many checks may wait for a thread. */
    public void setCheckRequestHoldMax(int checks) {
        set(CheckbackConfig.CHECK_QUEUE_SIZE, checks);
    }

    /** Does nothing: the producer has threads of its own, see {@link #setCheckThreadPoolMaxSize}. */
    public void setExecutorService(ExecutorService executorService) {}

    /** Names this process in its group, for Kafka's static membership. */
    public void setInstanceName(String name) {
        set(CheckbackConfig.INSTANCE_NAME, name);
    }

    /**
     * Sets any setting of {@link CheckbackConfig} or of Kafka's clients, before the start.
     *
     * @param name the setting
     * @param value its value
     */
    public void set(String name, Object value) {
        settings.put(name, value);
    }

    /** Returns the producer group. */
    public String getProducerGroup() {
        return String.valueOf(settings.get(CheckbackConfig.GROUP));
    }

    /**
     * Connects, creates the group's check topic unless it exists, and begins to answer checks.
     *
     * @throws MQClientException a setting is not usable, it was started before, or Kafka is not set up
     */
    public void start() throws MQClientException {
        try {
            if (listener == null) {
                throw new IllegalStateException("There is no listener. Call setTransactionListener() before start().");
            }
            if (engine == null) {
                CheckbackConfig config = new CheckbackConfig(settings);
                halfTopic = config.topics().half();
                engine = new TransactionEngine(config, this::check);
            }
            engine.start();
        } catch (CheckbackException | KafkaException | IllegalStateException error) {
            throw new MQClientException(error);
        }
    }

    /**
     * Stores a half message, runs the local transaction, and says how it ended. The op is sent without
     * waiting: if it is lost, a check asks later.
     *
     * @param message what consumers of its topic get once it is committed
     * @param arg passed to the listener
     * @return where the half is, and how the local transaction ended
     * @throws MQClientException the message was not, or not certainly, stored; the local transaction did not
     *     run. The cause says more: see {@link io.checkback.client.CheckbackProducer#send}.
     */
    public TransactionSendResult sendMessageInTransaction(Message message, Object arg) throws MQClientException {
        try {
            if (engine == null) {
                throw new IllegalStateException("The producer is not started. Call start() first.");
            }
            SendOutcome outcome = engine.send(message.outgoing(), id -> execute(message, id, arg));
            message.setTransactionId(outcome.transactionId());
            return new TransactionSendResult(outcome, halfTopic);
        } catch (CheckbackException | IllegalStateException error) {
            throw new MQClientException(error);
        }
    }

    /**
     * Stops taking messages, waits for what is running, and closes; does nothing a second time.
     *
     * @return how many sends and answers it left running; checks ask how they ended
     */
    public int shutdown() {
        return engine == null ? 0 : engine.shutdown();
    }

    private LocalTransactionState execute(Message message, String transactionId, Object arg) {
        Message copy = new Message();
        message.copyTo(copy);
        copy.setTransactionId(transactionId);
        return listener.executeLocalTransaction(copy, arg);
    }

    private LocalTransactionState check(CheckRequest request) {
        return listener.checkLocalTransaction(new MessageExt(request));
    }
}
