package io.checkback.client.internal.sending;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.checkback.client.LocalTransactionState;
import io.checkback.client.internal.ClientMetrics;
import io.checkback.client.internal.LocalOutcome;
import io.checkback.client.internal.records.RecordSigner;
import io.checkback.client.internal.records.Records;
import io.checkback.client.internal.records.SignedRecord;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Writes ops into the partition number of their half. Threads may share it. */
public final class OpSender {
    private static final Logger LOG = LoggerFactory.getLogger(OpSender.class);

    private final Producer<byte[], byte[]> producer;
    private final String topic;
    private final Header group;
    private final ClientMetrics metrics;
    private final RecordSigner signer;

    /**
     * The contents of an op.
     *
     * @param partition of the half
     * @param offset of the half
     * @param transactionId of the half
     * @param state how the local transaction ended
     * @param isAnswer whether the op answers a check request
     * @param remark what went wrong, empty for nothing
     */
    public record Op(
            int partition,
            long offset,
            String transactionId,
            LocalTransactionState state,
            boolean isAnswer,
            String remark) {}

    public OpSender(
            Producer<byte[], byte[]> producer,
            String topic,
            Header group,
            ClientMetrics metrics,
            RecordSigner signer) {
        this.producer = producer;
        this.topic = topic;
        this.group = group;
        this.metrics = metrics;
        this.signer = signer;
    }

    /** Learns the topic's partitions, so that the first op need not wait for them. */
    public void warmUp() {
        producer.partitionsFor(topic);
    }

    /** Sends the op of a half without waiting. */
    public void end(Half half, LocalOutcome outcome) {
        sendOneWay(new Op(
                half.partition, half.offset, half.transactionId, outcome.state(), false, outcome.remark()));
    }

    /** Sends without waiting. A failure changes nothing for the caller: a check settles it. */
    private void sendOneWay(Op op) {
        try {
            send(op, (metadata, error) -> {
                if (error != null) {
                    failed(op, error.toString());
                }
            });
        } catch (RuntimeException error) {
            failed(op, error.toString());
        }
    }

    /** Sends and waits; tells whether the op was stored. A failure is logged and counted. */
    public boolean sendConfirmed(Op op, long timeoutMs) throws InterruptedException {
        CompletableFuture<Void> stored = new CompletableFuture<>();
        try {
            send(op, (metadata, error) -> {
                if (error == null) {
                    stored.complete(null);
                } else {
                    stored.completeExceptionally(error);
                }
            });
            stored.get(timeoutMs, TimeUnit.MILLISECONDS);
            return true;
        } catch (ExecutionException error) {
            failed(op, error.getCause().toString());
        } catch (TimeoutException error) {
            failed(op, "no answer in time");
        } catch (RuntimeException error) {
            failed(op, error.toString());
        }
        return false;
    }

    private void send(Op op, Callback callback) {
        byte[] key = op.transactionId.getBytes(UTF_8);
        byte[] value = Long.toString(op.offset).getBytes(UTF_8);
        List<Header> headers = Records.op(group, op.transactionId, op.state, op.isAnswer, op.remark);
        ProducerRecord<byte[], byte[]> record = signer == null
                ? new ProducerRecord<>(topic, op.partition, key, value, headers)
                : new SignedRecord(
                        topic, op.partition, null, key, value,
                        signer.sign(topic, op.partition, key, value, headers));
        producer.send(record, callback);
    }

    private void failed(Op op, String said) {
        metrics.add(ClientMetrics.Event.OP_FAILED);
        LOG.warn(
                "The op of transaction {} (half {}/{}) was not sent, a check will ask again: {}",
                op.transactionId, op.partition, op.offset, said);
    }

    /** Sends the ops that wait, then closes. */
    public void close(Duration timeout) {
        producer.close(timeout);
    }
}
