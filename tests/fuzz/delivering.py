"""Delivers healthy direct halves: finals, and ops that say so, in one Kafka transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final

from confluent_kafka import Producer
from tests.fuzz.places import HEALTHY_GROUP
from tests.fuzz.records import Record, Transaction
from tests.fuzz.writing import Stored
from tests.integration.running import Topics

from checkback.protocol.direct import direct_transactional_id
from checkback.protocol.records import final_parts

SESSION_ROUNDS: Final = 8
"""After which another session takes the next halves."""
TIMEOUT_S: Final = 60.0

Delivery = tuple[Transaction, int, Record]
"""What is delivered, the offset of its half, and the op that says so."""


class Delivering:
    """Direct sessions of the healthy group, one after the other.

    Args:
        topics: where ops go.
        op_topic: the direct op topic.
        chance: names the sessions.
        stored: told of each op, and of its offset.
    """

    def __init__(self, topics: Topics, op_topic: str, chance: Random, stored: Stored) -> None:
        self.topics = topics
        self.op_topic = op_topic
        self.chance = chance
        self.stored = stored
        self._rounds = 0
        self._failed: list[str] = []
        self._open()

    def begin_round(self) -> bytes:
        """Return the session that new halves are to name."""
        self._rounds += 1
        if self._rounds % SESSION_ROUNDS == 0:
            self._open()
        return self.name.encode()

    def deliver(self, deliveries: Iterable[Delivery]) -> None:
        """Make finals visible, and ops, at once."""
        self._write(deliveries, ())
        self._producer.commit_transaction(TIMEOUT_S)

    def abort(self, deliveries: Iterable[Delivery], others: Iterable[Record]) -> None:
        """Write finals and ops that nobody may see, and other records for the same topic."""
        self._write(deliveries, others)
        self._producer.abort_transaction(TIMEOUT_S)

    def _open(self) -> None:
        number = f"{self.chance.getrandbits(128):032x}"
        self.name = direct_transactional_id(self.topics.prefix, HEALTHY_GROUP, number)
        self._producer = Producer(
            {
                **self.topics.connection,
                "transactional.id": self.name,
                "partitioner": "murmur2_random",
                "message.max.bytes": 400_000_000,
                "linger.ms": 0,
            }
        )
        self._producer.init_transactions(TIMEOUT_S)

    def _write(self, deliveries: Iterable[Delivery], others: Iterable[Record]) -> None:
        self._producer.begin_transaction()
        for transaction, offset, op in deliveries:
            self._write_final(transaction.half, offset)
            self._write_op(op)
        for op in others:
            self._write_op(op)
        assert self._producer.flush(TIMEOUT_S) == 0
        assert not self._failed, self._failed[:3]

    def _write_final(self, half: Record, offset: int) -> None:
        given = [(name.decode(), value or b"") for name, value in half.headers]
        parts = final_parts(given, half.partition, offset)
        headers: Any = parts.headers
        self._producer.produce(parts.real_topic, half.value, half.key, headers=headers)

    def _write_op(self, op: Record) -> None:
        headers: Any = [(name.decode(), value) for name, value in op.headers]
        told = self._told(op)
        to = op.partition
        self._producer.produce(
            self.op_topic, op.value, op.key, to, headers=headers, on_delivery=told
        )

    def _told(self, op: Record) -> Callable[[Any, Any], None]:
        def told(error: Any, message: Any) -> None:
            if error is not None:
                self._failed.append(f"{op.kind}: {error.str()}")
            else:
                self.stored(op, message.offset())

        return told
