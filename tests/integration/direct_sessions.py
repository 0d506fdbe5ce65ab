"""A producer that delivers its halves itself: a direct session, without the client around it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from confluent_kafka import Producer
from tests.integration.running import Topics

from checkback.protocol.direct import direct_transactional_id
from checkback.protocol.properties import TRANSACTION_DELIVERED, Headers
from checkback.protocol.records import Op, final_parts, half_headers
from checkback.sinks.kafka.sink_record import SentHeaders

GROUP = "g"


class DirectHalf(NamedTuple):
    """A half of a session, and where it stands."""

    body: bytes
    headers: Headers
    partition: int
    offset: int


@dataclass
class DirectSession:
    """One transactional id, initialised once, as the protocol of direct delivery has it.

    Args:
        topics: Checkback's topics.
        timeout_ms: after which the broker aborts what it leaves open.
    """

    topics: Topics
    timeout_ms: int = 60_000
    name: str = ""
    producer: Producer = field(init=False)

    def __post_init__(self) -> None:
        self.name = direct_transactional_id(self.topics.prefix, GROUP, uuid.uuid4().hex)
        self.producer = Producer(
            {
                **self.topics.connection,
                "transactional.id": self.name,
                "transaction.timeout.ms": self.timeout_ms,
                "partitioner": "murmur2_random",
                "linger.ms": 0,
            }
        )
        self.producer.init_transactions(30.0)

    def half(self, body: bytes, real: str, partition: int = 0) -> DirectHalf:
        """Store a half that this session may deliver; its id is its body."""
        headers = half_headers(
            producer_group=GROUP,
            transaction_id=body.decode(),
            real_topic=real,
            properties={"mine": "yes"},
            direct_id=self.name,
        )
        at = self.topics.send_raw(self.topics.names.half, body, headers, partition)
        return DirectHalf(body, headers, *at)

    def begin(self, halves: Sequence[DirectHalf]) -> None:
        """Write finals and delivered ops in a transaction, and have them stored."""
        self.producer.begin_transaction()
        for half in halves:
            parts = final_parts(half.headers, half.partition, half.offset)
            self.producer.produce(
                parts.real_topic, half.body, headers=cast("SentHeaders", parts.headers)
            )
            op = op_on(half, TRANSACTION_DELIVERED)
            self.producer.produce(
                self.topics.names.direct_op,
                op.value(),
                op.key(),
                half.partition,
                headers=cast("SentHeaders", op.headers()),
            )
        assert self.producer.flush(30.0) == 0

    def commit(self) -> None:
        """Commit what was begun."""
        self.producer.commit_transaction(30.0)

    def deliver(self, *halves: DirectHalf) -> None:
        """Deliver halves in one transaction."""
        self.begin(halves)
        self.commit()

    def say(self, half: DirectHalf, state: int) -> None:
        """Write the plain op that closes the session for a half."""
        op = op_on(half, state, closed=self.name)
        to = self.topics.names.direct_op
        self.topics.send_raw(to, op.value(), op.headers(), half.partition, op.key())


def op_on(half: DirectHalf, state: int, *, closed: str = "") -> Op:
    """Return an op on a half."""
    return Op(half.partition, half.offset, GROUP, half.body.decode(), state, direct_closed=closed)
