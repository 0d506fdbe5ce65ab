"""Sends ops: one-way after a local transaction, confirmed after a check."""

from __future__ import annotations

import logging
import time
from typing import Any, Protocol

from kafka.errors import KafkaError

from checkback.client.broker_clock import BrokerClock
from checkback.client.counters import Counters, Event
from checkback.client.outcome import remark_of
from checkback.protocol.records import Op

_log = logging.getLogger(__name__)


class RecordSender(Protocol):
    """What of a Kafka producer an op needs."""

    def send(
        self,
        topic: str,
        value: bytes,
        key: bytes | None,
        headers: list[tuple[str, bytes]],
        partition: int,
    ) -> Any:
        """Send without waiting; the answer is a kafka-python future."""


class OpSender:
    """Writes ops into the partition number of their half.

    Args:
        producer: writes them; its own tries, within their time limit, are all that there are.
        op_topic: where to.
        counters: failures are counted as OP_FAILED.
        clock: learns the brokers' time.
    """

    def __init__(
        self,
        producer: RecordSender,
        op_topic: str,
        counters: Counters,
        clock: BrokerClock,
    ) -> None:
        self._producer = producer
        self._op_topic = op_topic
        self._counters = counters
        self._clock = clock

    def send_one_way(self, op: Op) -> None:
        """Send and return. A failure changes nothing for the caller: the check settles it."""
        try:
            self._send(op).add_errback(self._failed, op)
        except Exception as error:
            # One-way: whatever it was, the check settles it.
            self._failed(op, error)

    def send_confirmed(self, op: Op, timeout_s: float) -> bool:
        """Send and wait; tell whether the op was stored. A failure is logged and counted."""
        try:
            stored = self._send(op).get(timeout_s)
        except KafkaError as error:
            self._failed(op, error)
            return False
        self._clock.learn(stored.timestamp, time.time() * 1000)
        return True

    def _send(self, op: Op) -> Any:
        return self._producer.send(
            self._op_topic, op.value(), op.key(), op.headers(), op.half_partition
        )

    def _failed(self, op: Op, error: BaseException) -> None:
        self._counters.add(Event.OP_FAILED)
        _log.warning(
            "The op of transaction %s (half %d/%d) was not sent, a check will ask again: %s",
            op.transaction_id, op.half_partition, op.half_offset, remark_of(error),
        )  # fmt: skip
