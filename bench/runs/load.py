"""Fills the half and op topics from separate processes: ``python -m checkback.bench.load``.

It does not use the client, because that would be measured, too. It writes records as fast as
librdkafka accepts them. It knows the offsets in advance, because nobody else writes to these
topics.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, cast

from confluent_kafka import Consumer, Producer, TopicPartition

from checkback.bench.workload import Workload
from checkback.protocol.errors import BrokerError
from checkback.protocol.topics import TopicNames
from checkback.sinks.kafka.sink_record import SentHeaders

LOAD_TIMEOUT_S: Final = 1_800.0
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
    """The work of one process.

    Args:
        connection: librdkafka's settings for the connection.
        topic_prefix: prefix of Checkback's topics.
        workload: the transactions to write.
        first: offset of the first half, by half partition.
        count: number of transactions in each of these partitions.
        halves: whether halves are written.
        ops: whether ops are written; with halves, each right after its half.
    """

    connection: Mapping[str, Any]
    topic_prefix: str
    workload: Workload
    first: Mapping[int, int]
    count: int
    halves: bool = True
    ops: bool = True

    def to_json(self) -> str:
        """Return the load as JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Load:
        """Parse the JSON of to_json."""
        found = json.loads(text)
        found["workload"] = Workload(**found["workload"])
        found["first"] = {int(partition): first for partition, first in found["first"].items()}
        return Load(**found)


def load(
    connection: Mapping[str, Any],
    topic_prefix: str,
    workload: Workload,
    first: Mapping[int, int],
    transactions: int,
    *,
    halves: bool = True,
    ops: bool = True,
    processes: int = 2,
) -> int:
    """Write transactions, evenly to all partitions; return when the brokers have stored them.

    Args:
        connection: librdkafka's settings for the connection.
        topic_prefix: prefix of Checkback's topics.
        workload: the transactions to write.
        first: offset of the first half, by half partition.
        transactions: number for all partitions together; rounded up to the same number in each.
        halves: whether halves are written.
        ops: whether ops are written.
        processes: number of writing processes.

    Returns:
        The number of written transactions.

    Raises:
        BrokerError: a record was not stored.
    """
    count = -(-transactions // len(first))
    shares = [dict(list(first.items())[number::processes]) for number in range(processes)]
    running = [
        _start(Load(connection, topic_prefix, workload, share, count, halves, ops))
        for share in shares
        if share
    ]
    for process in running:
        _finish(process)
    return count * len(first)


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


def _start(one: Load) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "checkback.bench.load"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    if process.stdin is not None:
        # Not on the command line: the connection may hold a password.
        process.stdin.write(one.to_json().encode())
        process.stdin.close()
        process.stdin = None
    return process


def _finish(process: subprocess.Popen[bytes]) -> None:
    _, said = process.communicate(timeout=LOAD_TIMEOUT_S)
    if process.returncode:
        raise BrokerError(
            f"The benchmark's records could not be written: {said.decode()[-500:]}",
            remedy="Check the brokers' logs and the disk.",
        )


def write(one: Load) -> None:
    """Write the records of one process.

    Raises:
        BrokerError: a record was not stored.
    """
    failures: list[str] = []
    producer = Producer(
        {
            **QUEUE,
            **one.connection,
            "on_delivery": lambda error, _: failures.append(error.str()) if error else None,
        }
    )
    topics = TopicNames(one.topic_prefix)
    signers = one.workload.signers()
    bodies = {partition: one.workload.bodies(partition) for partition in one.first}
    for number in range(one.count):
        for partition, first in one.first.items():
            offset = first + number
            signer = signers[offset % len(signers)] if signers else None
            if one.halves:
                headers = one.workload.half_headers(partition, offset)
                body, key = next(bodies[partition]), b"k%d" % offset
                if signer is not None:
                    headers = signer.half(topics.half, key, body, headers)
                _put(producer, topics.half, body, key, partition, headers)
            if one.ops:
                op = one.workload.op(partition, offset)
                headers = op.headers()
                if signer is not None:
                    headers = signer.op(topics.op, partition, op.key(), op.value(), headers)
                _put(producer, topics.op, op.value(), op.key(), partition, headers)
        if number % POLL_EVERY == 0:
            producer.poll(0)
    if producer.flush(LOAD_TIMEOUT_S) or failures:
        raise BrokerError(f"Records were not stored: {failures[:1] or 'no answer'}.")


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


if __name__ == "__main__":
    write(Load.from_json(sys.stdin.read()))
