"""A relay that does what a test says, one Kafka transaction at a time."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from tests.integration.running import Topics

from checkback.protocol.decided import (
    OpKind,
    PartitionNote,
    RelayMark,
    Taken,
    delivered_headers,
    note_headers,
    note_value,
    partition_note,
    passed_headers,
)
from checkback.protocol.properties import Headers
from checkback.protocol.records import final_parts
from checkback.protocol.topics import relay_group


class HandRelay:
    """The relay of one deployment; it decides nothing by itself.

    Args:
        topics: of the deployment.
        application_id: of the deployment.
    """

    def __init__(self, topics: Topics, application_id: str = "checkback") -> None:
        self.topics = topics
        group = relay_group(application_id)
        own = {"group.id": group, "isolation.level": "read_committed"}
        self.member = Consumer(
            {**topics.connection, **own, "enable.auto.commit": False, "session.timeout.ms": 6_000}
        )
        self.producer = Producer(
            {**topics.connection, "transactional.id": f"{topics.prefix}{application_id}-relay-0-0"}
        )
        self.assigned: list[TopicPartition] = []
        self.positions: dict[int, int] = {}

    def join(self) -> None:
        """Take all partitions, and begin where the group stands or where relays take the ops."""

        def on_assign(consumer: Consumer, places: list[TopicPartition]) -> None:
            consumer.assign(places)
            consumer.pause(places)
            self.assigned = places

        self.member.subscribe([self.topics.names.op], on_assign=on_assign)
        until_s = time.monotonic() + 30
        while not self.assigned and time.monotonic() < until_s:
            self.member.poll(0.1)
        self.generation: Any = self.member.consumer_group_metadata()
        self.producer.init_transactions(30)
        for place in self.member.committed(self.assigned, timeout=30):
            self.positions[place.partition] = max(
                place.offset, self.taken(place.partition).ops_from
            )

    def taken(self, partition: int) -> Taken:
        """Return the newest word of the job that relays take the ops."""
        words = [note for note in self.notes(partition) if isinstance(note, Taken)]
        return words[-1]

    def notes(self, partition: int) -> list[PartitionNote]:
        """Return what is said of a partition, in its order."""
        records = sorted(self.records(partition), key=lambda one: one.offset() or 0)
        found = (partition_note(one.headers() or [], one.value()) for one in records)
        return [note for note in found if note is not None]

    def records(self, partition: int) -> list[Message]:
        """Return the records of a decided partition."""
        found = self.topics.read(self.topics.names.decided)
        return [one for one in found if one.partition() == partition]

    def ops(self, partition: int) -> list[Message]:
        """Return the ops of a partition that have no record yet."""
        found = self.topics.read(self.topics.names.op)
        mine = [one for one in found if one.partition() == partition]
        return sorted(
            (one for one in mine if (one.offset() or 0) >= self.positions[partition]),
            key=lambda one: one.offset() or 0,
        )

    def decide(
        self, kind: OpKind, partition: int = 0, *, floor: int = 0, until_ms: int = 0
    ) -> None:
        """Make something of all ops of a partition, and mark it."""
        ops = self.ops(partition)
        self.begin()
        for op in ops:
            at, headers = op.offset() or 0, dict(op.headers() or [])
            if kind is OpKind.DELIVERED:
                self._final(partition, int(op.value() or b""))
                said = delivered_headers(
                    headers["PGROUP"],
                    headers["UNIQ_KEY"],
                    b"false",
                    at,
                )
            else:
                said = passed_headers(_given(op), kind, at)
            self._send(partition, op, said)
            self.positions[partition] = at + 1
        self.mark(partition, floor, until_ms)
        self.commit()

    def begin(self) -> None:
        """Begin a transaction."""
        self.producer.begin_transaction()

    def mark(self, partition: int, floor: int, until_ms: int) -> None:
        """Write a mark into the open transaction."""
        taken, position = self.taken(partition), self.positions[partition]
        note = RelayMark(position, floor, until_ms, taken.ops_from, taken.halves_from)
        self.producer.produce(
            topic=self.topics.names.decided,
            partition=partition,
            value=note_value(note),
            headers=note_headers(note),  # type: ignore[arg-type]
        )

    def commit(self) -> None:
        """Commit the open transaction with the positions."""
        places = [
            TopicPartition(self.topics.names.op, at, offset)
            for at, offset in self.positions.items()
        ]
        self.producer.send_offsets_to_transaction(places, self.generation, 30)
        self.producer.commit_transaction(30)

    def leave(self) -> None:
        """Leave the group."""
        self.member.close()

    def _final(self, partition: int, offset: int) -> None:
        halves = self.topics.read(self.topics.names.half)
        [half] = [one for one in halves if (one.partition(), one.offset()) == (partition, offset)]
        parts = final_parts(_given(half), partition, offset)
        self.producer.produce(
            topic=parts.real_topic,
            value=half.value(),
            key=half.key(),
            headers=parts.headers,  # type: ignore[arg-type]
        )

    def _send(self, partition: int, op: Message, headers: Headers) -> None:
        self.producer.produce(
            topic=self.topics.names.decided,
            partition=partition,
            key=op.key(),
            value=op.value(),
            headers=headers,  # type: ignore[arg-type]
        )


def _given(record: Message) -> Headers:
    return [(name, value or b"") for name, value in record.headers() or []]
