"""Fills the half and op topics from separate processes, as fast as librdkafka accepts records.

It does not use the client, because that would be measured, too. It knows the offsets in advance,
because only the benchmark writes to these topics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Final, cast

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.runs.workload import Workload
from checkback.protocol.errors import BrokerError
from checkback.protocol.topics import TopicNames
from checkback.sinks.records.sink_record import SentHeaders

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
class Load:
    """The work of one process."""

    connection: Mapping[str, Any]
    topics: TopicNames
    workload: Workload
    first: Mapping[int, int]  # offset of the first half, by half partition
    count: int  # of transactions in each of these partitions
    has_ops: bool = True


def load(whole: Load, processes: int = 2) -> int:
    """Write a load, its partitions shared among processes; return how many transactions it has.

    Returns when the brokers have stored them.

    Raises:
        BrokerError: a record was not stored.
    """
    partitions = list(whole.first.items())
    shares = [dict(partitions[number::processes]) for number in range(processes)]
    # Pickled to the process, not on its command line: the connection may hold a password.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        loads = [
            Load(whole.connection, whole.topics, whole.workload, share, whole.count, whole.has_ops)
            for share in shares
            if share
        ]
        list(pool.map(write, loads))
    return whole.count * len(whole.first)


def write(share: Load) -> None:
    """Write the records of one process.

    Raises:
        BrokerError: a record was not stored.
    """
    failures: list[str] = []
    producer = Producer(
        {
            **QUEUE,
            **share.connection,
            "on_delivery": lambda error, _: failures.append(error.str()) if error else None,
        }
    )
    topics, signers = share.topics, share.workload.signers()
    bodies = {partition: share.workload.bodies(partition) for partition in share.first}
    for number in range(share.count):
        for partition, first in share.first.items():
            offset = first + number
            signer = signers[offset % len(signers)] if signers else None
            headers = share.workload.half_headers(partition, offset)
            body, key = next(bodies[partition]), b"k%d" % offset
            if signer is not None:
                headers = signer.half(topics.half, key, body, headers)
            _put(producer, topics.half, body, key, partition, headers)
            if share.has_ops:
                op = share.workload.op(partition, offset)
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
    consumer = Consumer({**connection, "group.id": "checkback-bench"})
    try:
        return {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), 30.0)[1]
            for number in partitions
        }
    finally:
        consumer.close()


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
