"""Answers one check request: asks the listener, sends the op, and not without having sent it."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass

from checkback.client.broker_clock import BrokerClock
from checkback.client.counters import Counters, Event
from checkback.client.listener import LocalTransactionState, TransactionListener
from checkback.client.message import MessageExt
from checkback.client.op_sender import OpSender
from checkback.client.outcome import EVENTS_BY_STATE, Outcome, run_listener
from checkback.protocol.records import Op

_log = logging.getLogger(__name__)

PAUSE_BETWEEN_TRIES_S = 0.5


@dataclass(frozen=True, kw_only=True)
class CheckAnswers:
    """Answers check requests.

    Args:
        listener: knows how the local transaction ended.
        producer_group: whose requests these are.
        ops: sends the answers.
        counters: counts them.
        clock: tells how old a request is.
        check_interval_ms: a request that is older is skipped: the next one is on its way.
        try_timeout_s: how long one try to send an answer may take.
        stopping: set when the producer shuts down; an unsent answer is then left to others.
    """

    listener: TransactionListener
    producer_group: str
    ops: OpSender
    counters: Counters
    clock: BrokerClock
    check_interval_ms: int
    try_timeout_s: float
    stopping: threading.Event

    def answer(self, request: MessageExt) -> bool:
        """Answer a request; tell whether it is done with, by an answer or because it is old."""
        if self._is_old(request):
            self.counters.add(Event.CHECK_SKIPPED)
            return True
        outcome = run_listener(lambda: self.listener.check_local_transaction(request))
        if outcome.exception is not None:
            self.counters.add(Event.LISTENER_FAILED)
            _log.error(
                "check_local_transaction failed on transaction %s; answered unknown",
                request.transaction_id, exc_info=outcome.exception,
            )  # fmt: skip
        return self._send(request, self._op(request, outcome))

    def _op(self, request: MessageExt, outcome: Outcome) -> Op:
        return Op(
            half_partition=request.half_queue,
            half_offset=request.queue_offset,
            producer_group=self.producer_group,
            transaction_id=request.transaction_id,
            state=int(outcome.state),
            from_transaction_check=True,
            remark=outcome.remark,
        )

    def _send(self, request: MessageExt, op: Op) -> bool:
        while not self.ops.send_confirmed(op, self.try_timeout_s):
            if self._is_old(request):
                return True
            if self.stopping.wait(PAUSE_BETWEEN_TRIES_S):
                return False
        self.counters.add(Event.CHECK_ANSWERED)
        self.counters.add(EVENTS_BY_STATE[LocalTransactionState(op.state)])
        return True

    def _is_old(self, request: MessageExt) -> bool:
        age_ms = self.clock.age_ms(request.requested_at_ms, time.time() * 1000)
        return age_ms > self.check_interval_ms
