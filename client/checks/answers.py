"""Answers one check request: asks the listener, sends the op, and waits until Kafka has it."""

from __future__ import annotations

import copy
import logging
import threading
from dataclasses import dataclass
from typing import Final

from checkback.client.kafka.clock import BrokerClock, steady_ms
from checkback.client.listener import (
    EVENTS_BY_STATE,
    CallbackResult,
    LocalTransactionState,
    TransactionListener,
    run_listener,
)
from checkback.client.message import MessageExt
from checkback.client.observing.counters import ClientEvent, Counters
from checkback.client.observing.tracing import StepSpan, Tracing
from checkback.client.sending.half import InDoubtIds
from checkback.client.sending.op_producer import OpProducer
from checkback.metrics.log_lines import facts
from checkback.protocol.records import Op

_log = logging.getLogger(__name__)

PAUSE_BETWEEN_TRIES_S: Final = 0.5
NEVER_RAN: Final = CallbackResult(
    LocalTransactionState.ROLLBACK_MESSAGE,
    "it was in doubt whether the half was stored; the local transaction did not run",
)


@dataclass(frozen=True, kw_only=True)
class CheckAnswers:
    """Answers check requests.

    Args:
        listener: knows how the local transaction ended.
        in_doubt: halves of this process whose local transactions certainly did not run.
        clock: tells how old a request is.
        try_timeout_s: how long one try to send an answer may take.
        stopping: set when the producer shuts down; other processes then give the answers that it
            did not send.
    """

    listener: TransactionListener
    producer_group: str
    in_doubt: InDoubtIds
    ops: OpProducer
    counters: Counters
    clock: BrokerClock
    try_timeout_s: float
    stopping: threading.Event
    tracing: Tracing | None = None

    def answer(self, request: MessageExt) -> bool:
        """Answer a request, or skip an old one; return whether the request is done.

        A request older than the pipeline's check interval is skipped: the next one is on its way.
        """
        if self._is_old(request):
            self.counters.add(ClientEvent.CHECK_SKIPPED)
            return True
        if request.transaction_id in self.in_doubt:
            return self._roll_back_doubtful(request)
        if self.tracing is None:
            return self._answer(request, None)
        with self.tracing.check(request) as span:
            return self._answer(request, span)

    def _answer(self, request: MessageExt, span: StepSpan | None) -> bool:
        outcome = run_listener(
            # The listener gets a copy: what it writes there must not change an answer.
            lambda: self.listener.check_local_transaction(copy.copy(request))
        )
        if span is not None:
            span.ended(outcome.state, outcome.exception)
        if outcome.exception is not None:
            self.counters.add(ClientEvent.LISTENER_FAILED)
            _log.error(
                "check_local_transaction failed on transaction %s; answered unknown",
                request.transaction_id, exc_info=outcome.exception,
                extra=facts(transaction_id=request.transaction_id),
            )  # fmt: skip
        return self._send(request, outcome)

    def _roll_back_doubtful(self, request: MessageExt) -> bool:
        done = self._send(request, NEVER_RAN)
        if done:
            self.counters.add(ClientEvent.DOUBT_SETTLED)
        return done

    def _send(self, request: MessageExt, outcome: CallbackResult) -> bool:
        op = Op(
            half_partition=request.half_queue,
            half_offset=request.queue_offset,
            producer_group=self.producer_group,
            transaction_id=request.transaction_id,
            state=int(outcome.state),
            from_transaction_check=True,
            remark=outcome.remark,
        )
        while not self.ops.send_confirmed(op, self.try_timeout_s):
            if self._is_old(request):
                return True
            if self.stopping.wait(PAUSE_BETWEEN_TRIES_S):
                return False
        self.counters.add(ClientEvent.CHECK_ANSWERED)
        self.counters.add(EVENTS_BY_STATE[outcome.state])
        return True

    def _is_old(self, request: MessageExt) -> bool:
        if request.check_interval_ms is None:
            return False
        age_ms = self.clock.age_ms(request.requested_at_ms, steady_ms())
        return age_ms > request.check_interval_ms
