"""The benchmarks' records: made from a seed, and written as fast as librdkafka accepts them.

The same seed gives the same bytes. They are written without the client, because that would be
measured, too. The offsets are known in advance, because only the benchmark writes to these topics.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from checkback.protocol.errors import BrokerError
from checkback.protocol.properties import CHECK_IMMUNITY_TIME_IN_SECONDS, TAGS, Headers
from checkback.protocol.records import Op, half_headers
from checkback.protocol.topics import TopicNames
from checkback.security.record_signer import RecordSigner
from checkback.sinks.records.sink_record import SentHeaders
from checkback.testing.topics import COMMIT, ROLLBACK

GROUP: Final = "bench"
ROLLED_BACK_OF: Final = 10
"""One of this many transactions is rolled back."""
POOL_BYTES: Final = 16 * 1024 * 1024
FLUSH_TIMEOUT_S: Final = 1_800.0
POLL_EVERY: Final = 2_000
QUEUE: Final[Mapping[str, Any]] = {
    "linger.ms": 20,
    "batch.size": 1_000_000,
    "message.max.bytes": 8_000_000,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 262_144,
}


@dataclass(frozen=True, slots=True)
class Workload:
    """Transactions; every byte follows from the seed and the half's position."""

    seed: int
    body_bytes: int
    real_topic: str
    due_at_s: float | None = None  # time of the check requests; None: as the settings say
    has_rollbacks: bool = True
    accounts: int = 0  # sign the records by turns; 0 for no signatures

    def transaction_id(self, partition: int, offset: int) -> str:
        """Return a transaction id: 32 characters, like the client's."""
        return f"{self.seed:08x}{partition:08x}{offset:016x}"

    def half_headers(self, partition: int, offset: int) -> Headers:
        """Return a half's six headers."""
        immunity = {}
        if self.due_at_s is not None:
            seconds = max(1, math.ceil(self.due_at_s - time.time()))
            immunity = {CHECK_IMMUNITY_TIME_IN_SECONDS: str(seconds)}
        return half_headers(
            producer_group=GROUP,
            transaction_id=self.transaction_id(partition, offset),
            real_topic=self.real_topic,
            properties={**immunity, TAGS: "bench"},
        )

    def op(self, partition: int, offset: int) -> Op:
        """Return the op of a transaction."""
        state = COMMIT if self.commits(offset) else ROLLBACK
        return Op(partition, offset, GROUP, self.transaction_id(partition, offset), state)

    def signers(self) -> list[RecordSigner]:
        """Return the signer of each account; none without signatures."""
        return [
            RecordSigner(f"bench-account-{number}", _secret(number), lambda: time.time() * 1_000)
            for number in range(self.accounts)
        ]

    def access_rules(self) -> str:
        """Return the rules of access control (plain_acl.yml) that allow the records."""
        lines = ["accounts:"]
        for number in range(self.accounts):
            lines += [
                f"- accessKey: bench-account-{number}",
                f"  secretKey: {_secret(number)}",
                f"  topicPerms: [{self.real_topic}=PUB]",
                f"  groupPerms: [{GROUP}=PUB|SUB]",
            ]
        return "\n".join(lines) + "\n"

    def commits(self, offset: int) -> bool:
        """Return whether the transaction of the half at this offset is committed."""
        return not (self.has_rollbacks and (offset + self.seed) % ROLLED_BACK_OF == 0)

    def bodies(self, partition: int) -> Iterator[bytes]:
        """Yield bodies without end."""
        pool = np.random.default_rng((self.seed, partition)).bytes(POOL_BYTES + self.body_bytes)
        step = 4_099 if self.body_bytes < POOL_BYTES // 4 else self.body_bytes
        at = 0
        while True:
            yield pool[at : at + self.body_bytes]
            at = (at + step) % POOL_BYTES


def _secret(number: int) -> str:
    return f"secret-of-bench-account-{number}"


def commits_among(seed: int, count: int) -> int:
    """Return how many of a partition's first halves are committed."""
    rolled_back = len(range(-seed % ROLLED_BACK_OF, count, ROLLED_BACK_OF))
    return count - rolled_back


def write(
    connection: Mapping[str, Any],
    topics: TopicNames,
    workload: Workload,
    count: int,
    has_ops: bool,
    firsts: Mapping[int, int],
) -> None:
    """Write a number of transactions to each half partition; return when the brokers have them."""
    failures: list[str] = []

    def reported(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failures.append(error.str())

    producer = Producer({**QUEUE, **connection, "on_delivery": reported})
    signers = workload.signers()
    bodies = {partition: workload.bodies(partition) for partition in firsts}
    for number in range(count):
        for partition, first in firsts.items():
            offset = first + number
            signer = signers[offset % len(signers)] if signers else None
            headers = workload.half_headers(partition, offset)
            body, key = next(bodies[partition]), b"k%d" % offset
            if signer is not None:
                headers = signer.half(topics.half, key, body, headers)
            _put(producer, topics.half, body, key, partition, headers)
            if has_ops:
                op = workload.op(partition, offset)
                headers = op.headers()
                if signer is not None:
                    headers = signer.op(topics.op, partition, op.key(), op.value(), headers)
                _put(producer, topics.op, op.value(), op.key(), partition, headers)
        if number % POLL_EVERY == 0:
            producer.poll(0)
    if producer.flush(FLUSH_TIMEOUT_S) or failures:
        raise BrokerError(
            f"The benchmark's records were not stored: {(failures or ['no answer'])[0]}.",
            remedy="Check the brokers' logs and the disk.",
        )


def ends_of(connection: Mapping[str, Any], topic: str, partitions: Sequence[int]) -> dict[int, int]:
    """Return the next offset of each partition."""
    with closing(Consumer({**connection, "group.id": "checkback-bench"})) as consumer:
        return {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), 30.0)[1]
            for number in partitions
        }


def _put(
    producer: Producer, topic: str, value: bytes, key: bytes, partition: int, headers: object
) -> None:
    produce = cast("Callable[..., None]", producer.produce)
    while True:
        try:
            produce(topic, value, key, partition, headers=cast("SentHeaders", headers))
        except BufferError:
            producer.poll(0.05)
        else:
            return
