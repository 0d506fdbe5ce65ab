"""Topics, halves and readers for tests of the sink without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.deciding import page_outcome

from checkback.protocol.records import half_headers
from checkback.protocol.topics import TopicNames
from checkback.sinks.forwarding import Forwarder
from checkback.sinks.lookup import RecordReader
from checkback.sinks.native import native
from checkback.sinks.real_topics import TopicDirectory
from checkback.sinks.settings import SinkSettings
from checkback.sinks.writer import BatchWriter
from checkback.state import Action, Outcome

Found = list[tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]]


@dataclass
class World:
    """Topics of one test, halves in them, and writers over them."""

    settings: SinkSettings
    real: str
    writers: list[BatchWriter] = field(default_factory=list)

    @property
    def names(self) -> TopicNames:
        return self.settings.topics

    def writer(self, state_partition: int = 0) -> BatchWriter:
        connection = dict(self.settings.connection)
        writer = BatchWriter(
            self.settings,
            state_partition,
            RecordReader(connection, self.names.half),
            RecordReader(connection, self.names.op),
            TopicDirectory(AdminClient(connection)),
            self._forwarder(),
        )
        self.writers.append(writer)
        return writer

    def _forwarder(self) -> Forwarder | None:
        if not self.settings.native_sink:
            return None
        found = native()
        assert found is not None
        return Forwarder(dict(self.settings.connection), self.names.half, found)

    def close(self) -> None:
        for writer in self.writers:
            writer.close()
            if writer.forwarder is not None:
                writer.forwarder.close()
            writer.halves.close()
            writer.ops.close()

    def halves(
        self,
        bodies: Sequence[bytes],
        real: str | None = None,
        group: str = "g",
        *,
        keyed: bool = True,
    ) -> None:
        producer = Producer({**self.settings.connection, "message.max.bytes": 4_000_000})
        for number, body in enumerate(bodies):
            headers: Any = half_headers(
                producer_group=group,
                transaction_id=f"id-{number}",
                real_topic=real or self.real,
                properties={"TAGS": "t", "mine": "yes"},
            )
            key = f"k{number}" if keyed else None
            producer.produce(self.names.half, body, key, 0, headers=headers)
        producer.flush()

    def delete_halves_before(self, offset: int) -> None:
        """Do what retention does."""
        admin = AdminClient(dict(self.settings.connection))
        [deleted] = admin.delete_records([TopicPartition(self.names.half, 0, offset)]).values()
        deleted.result()

    def read(self, topic: str) -> Found:
        """Everything that a read_committed consumer sees, in order of offsets."""
        consumer = Consumer(
            {
                **self.settings.connection,
                "group.id": "audit",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        partitions = consumer.list_topics(topic).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        found: Found = []
        ended = 0
        while ended < len(partitions):
            message = consumer.poll(10)
            assert message is not None, f"no end of {topic}: a transaction hangs"
            if message.error():
                ended += 1
            else:
                found.append((message.key(), message.value(), message.headers() or []))
        consumer.close()
        return found


def make_world(bootstrap_servers: str, unique: str, *, native_sink: bool = True) -> World:
    """Make the topics of one test; what Kafka takes is 4 MB, but 1 MiB on the real topic."""
    connection = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
    settings = SinkSettings(
        "app", unique, unique, connection, 10_000, 8_000_000, native_sink=native_sink
    )
    names, real = settings.topics, f"{unique}orders"
    wide = {"max.message.bytes": "4000000"}
    topics = [
        NewTopic(names.half, 1, 1, config=wide),
        NewTopic(names.op, 1, 1, config=wide),
        NewTopic(names.refused, 1, 1, config=wide),
        NewTopic(names.discarded, 1, 1, config=wide),
        NewTopic(names.settled, 2, 1),
        NewTopic(names.check("g"), 1, 1, config=wide),
        NewTopic(real, 2, 1, config={"max.message.bytes": "1048588"}),
    ]
    admin = AdminClient(connection)
    for future in admin.create_topics(topics).values():
        future.result()
    return World(settings, real)


def outcome(*decided: tuple[Action, int, int]) -> Outcome:
    """What page 0 decided: (action, offset, detail) each."""
    return page_outcome(0, *((action, at, detail, at) for action, at, detail in decided))


def commits(*offsets: int) -> Outcome:
    return outcome(*((Action.COMMIT, offset, 0) for offset in offsets))
