package io.checkback.client.internal.checks;

import io.checkback.client.CheckRequest;
import io.checkback.client.LocalTransactionState;
import io.checkback.client.internal.ClientMetrics;
import io.checkback.client.internal.ClientMetrics.Event;
import io.checkback.client.internal.LocalOutcome;
import io.checkback.client.internal.sending.BrokerClock;
import io.checkback.client.internal.sending.InDoubtIds;
import io.checkback.client.internal.sending.OpSender;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Answers one check request: asks the application, sends the op, and waits until Kafka has it. */
public final class CheckAnswers {
    private static final Logger LOG = LoggerFactory.getLogger(CheckAnswers.class);
    private static final long PAUSE_BETWEEN_TRIES_MS = 500;
    private static final LocalOutcome NEVER_RAN = new LocalOutcome(
            LocalTransactionState.ROLLBACK_MESSAGE,
            "it was in doubt whether the half was stored; the local transaction did not run",
            null);

    private final Checker checker;
    private final InDoubtIds inDoubt;
    private final OpSender ops;
    private final ClientMetrics metrics;
    private final BrokerClock clock;
    private final long tryTimeoutMs;
    private final CountDownLatch stopping;


    public CheckAnswers(
            Checker checker,
            InDoubtIds inDoubt,
            OpSender ops,
            ClientMetrics metrics,
            BrokerClock clock,
            long tryTimeoutMs,
            CountDownLatch stopping) {
        this.checker = checker;
        this.inDoubt = inDoubt;
        this.ops = ops;
        this.metrics = metrics;
        this.clock = clock;
        this.tryTimeoutMs = tryTimeoutMs;
        this.stopping = stopping;
    }

    /** Answers a request, or skips an old one; tells whether the request is done. */
    public boolean answer(CheckRequest request) throws InterruptedException {
        if (isOld(request)) {
            metrics.add(Event.CHECK_SKIPPED);
            return true;
        }
        if (inDoubt.contains(request.transactionId())) {
            boolean isDone = send(request, NEVER_RAN);
            if (isDone) {
                metrics.add(Event.DOUBT_SETTLED);
            }
            return isDone;
        }
        LocalOutcome outcome = LocalOutcome.of(() -> checker.check(request));
        if (outcome.exception() != null) {
            metrics.add(Event.LISTENER_FAILED);
            LOG.error(
                    "The check of transaction {} failed; answered {}",
                    request.transactionId(), outcome.state(), outcome.exception());
        }
        return send(request, outcome);
    }

    private boolean send(CheckRequest request, LocalOutcome outcome) throws InterruptedException {
        OpSender.Op op = new OpSender.Op(
                request.halfPartition(), request.halfOffset(), request.transactionId(), outcome.state(), true,
                outcome.remark());
        while (!ops.sendConfirmed(op, tryTimeoutMs)) {
            if (isOld(request)) {
                return true;
            }
            if (stopping.await(PAUSE_BETWEEN_TRIES_MS, TimeUnit.MILLISECONDS)) {
                return false; // another process of the group gives the answer
            }
        }
        metrics.add(Event.CHECK_ANSWERED);
        metrics.add(outcome.event());
        return true;
    }

    private boolean isOld(CheckRequest request) {
        Long intervalMs = request.checkIntervalMs();
        return intervalMs != null && clock.ageMs(request.requestedAtMs()) > intervalMs;
    }
}
