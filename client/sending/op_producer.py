"""Sends ops: one-way after a local transaction, confirmed after a check."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import KafkaError, Producer
from confluent_kafka import Message as KafkaMessage

from checkback.client.kafka.delivery_reports import PolledProducer, ThreadReport
from checkback.client.listener import one_line
from checkback.client.observing.counters import ClientEvent, Counters
from checkback.metrics.log_lines import facts
from checkback.protocol.records import Op
from checkback.security.record_signer import RecordSigner

_log = logging.getLogger(__name__)

PAUSE_S: Final = 0.02
"""Pause between two polls for reports of ops: no caller waits for them."""
CLOSE_S: Final = 0.5
"""Time for the last ops, even if a shutdown has used up its time for something else."""


class OpProducer:
    """Writes ops into the partition number of their half.

    Ops after a local transaction go through a producer of their own, in batches, and only their
    failures are reported. An answer to a check goes through the producer of halves, and the caller
    waits until it is stored.

    Args:
        open_producer: opens the producer, given callbacks for errors of connections and of ops.
        confirming: the producer of halves.
        counters: failures are counted as OP_FAILED.
        signer: signs each op, None for no signature.
        renew: replaces a producer of halves that librdkafka gave up.
    """

    def __init__(
        self,
        open_producer: Callable[[Callable[[Any], None], Callable[[Any, Any], None]], Producer],
        confirming: Callable[[], PolledProducer],
        op_topic: str,
        counters: Counters,
        signer: RecordSigner | None = None,
        renew: Callable[[PolledProducer], None] = lambda _: None,
    ) -> None:
        self._signer = signer
        self._renew = renew
        self._confirming = confirming
        self._op_topic = op_topic
        self._counters = counters
        self._polled = PolledProducer(
            lambda: open_producer(
                lambda error: _log.debug("The producer of ops: %s", error.str()), self._not_stored
            ),
            f"checkback-{op_topic}",
            pause_s=PAUSE_S,
            is_signed=signer is not None,
        )

    def send_one_way(self, op: Op) -> None:
        """Send and return. A failure changes nothing for the caller: the check settles it."""
        try:
            self._polled.produce(**self._record(op))
        except Exception as error:
            # One-way: whatever it was, the check settles it.
            self._failed(op.transaction_id, op.half_partition, op.half_offset, one_line(error))

    def send_confirmed(self, op: Op, timeout_s: float) -> bool:
        """Send and wait; tell whether the op was stored. A failure is logged and counted."""
        polled = self._confirming()
        report = ThreadReport(polled.done)
        error = polled.hand_over(**self._record(op), on_delivery=report)
        if error is None:
            report.wait(timeout_s)
            error = report.error
        if report.message is not None and error is None:
            return True
        reason = "no answer in time" if error is None else error.str()
        self._failed(op.transaction_id, op.half_partition, op.half_offset, reason)
        if error is not None and error.code() == KafkaError._FATAL:
            # At once: the next half would renew the producer, but may come much later.
            self._renew(polled)
        return False

    def _record(self, op: Op) -> dict[str, Any]:
        """Return the arguments that send an op, signed where there is an account."""
        topic, partition = self._op_topic, op.half_partition
        key, value, headers = op.key(), op.value(), op.headers()
        if self._signer is not None:
            headers = self._signer.op(topic, partition, key, value, headers)
        return {
            "topic": topic, "value": value, "key": key, "partition": partition, "headers": headers,
        }  # fmt: skip

    def close(self, timeout_s: float) -> None:
        """Send the ops that wait, then close."""
        self._polled.close(max(CLOSE_S, timeout_s))

    def _not_stored(self, error: KafkaError, message: KafkaMessage) -> None:
        key, value = message.key() or b"", message.value() or b""
        self._failed(
            bytes(key).decode(), message.partition(), int(bytes(value) or b"-1"), error.str()
        )

    def _failed(self, transaction_id: str, partition: int | None, offset: int, reason: str) -> None:
        self._counters.add(ClientEvent.OP_FAILED)
        _log.warning(
            "The op of transaction %s (half %s/%d) was not sent, a check will ask again: %s",
            transaction_id, partition, offset, reason,
            extra=facts(transaction_id=transaction_id),
        )  # fmt: skip
