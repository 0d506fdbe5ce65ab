"""Topics, halves and readers for tests of the sink without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from tests.deciding import page_outcome

from checkback.protocol.configuration import Settings
from checkback.protocol.records import half_headers
from checkback.protocol.topics import TopicNames
from checkback.sinks.kafka.cluster.topic_directory import TopicDirectory
from checkback.sinks.kafka.read.record_reader import RecordReader
from checkback.sinks.native.finals import NativeHalfReader
from checkback.sinks.native.library import native
from checkback.sinks.partition.writer import BatchWriter
from checkback.sinks.settings import SinkSettings
from checkback.state import Action, Outcome
from checkback.state.formats.identity import identity_words
from checkback.testing.topics import read_topic
from checkback.testing.waiting import wait_until

Found = list[tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]]


MESSAGE_BYTES_MAX = 7_800_000
COMMITTED = IsolationLevel.READ_COMMITTED
UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED


def create_listed(client: AdminClient, *topics: NewTopic) -> None:
    """Create topics; wait until a broker lists them, which is after the answer."""
    for future in client.create_topics([*topics]).values():
        future.result()
    names = {topic.topic for topic in topics}
    wait_until(lambda: names <= client.list_topics().topics.keys(), what=f"{names} listed")


def delete_topic(connection: Mapping[str, Any], topic: str) -> None:
    """Delete a topic; wait until brokers name it no more, which is after the answer."""
    client = AdminClient(dict(connection))
    client.delete_topics([topic])[topic].result()
    wait_until(lambda: topic not in client.list_topics().topics, what=f"the end of {topic}")


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

    def _forwarder(self) -> NativeHalfReader | None:
        if not self.settings.pipeline.native_sink:
            return None
        found = native()
        assert found is not None
        return NativeHalfReader(found, self.settings.connection, self.names.half)

    def close(self) -> None:
        for writer in self.writers:
            writer.close()
            if writer.forwarder is not None:
                writer.forwarder.close()
            writer.halves.close()
            writer.ops.close()

    def halves(
        self,
        bodies: Sequence[bytes | None],
        real: str | None = None,
        group: str = "g",
        *,
        keyed: bool = True,
        ids: str = "id",
    ) -> None:
        # Idempotent, since tests know each half by its offset: a retry would change the order.
        settings = {"message.max.bytes": 4_000_000, "enable.idempotence": True}
        producer = Producer({**self.settings.connection, **settings})
        for number, body in enumerate(bodies):
            headers: Any = half_headers(
                producer_group=group,
                transaction_id=f"{ids}-{number}",
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

    def make_half_topic_again(self) -> None:
        """Delete the half topic with all halves, and make one of that name that is empty."""
        delete_topic(self.settings.connection, self.names.half)
        admin = AdminClient(dict(self.settings.connection))
        create_listed(admin, NewTopic(self.names.half, 1, 1))

    def read(self, topic: str) -> Found:
        """Everything that a read_committed consumer sees, in order of offsets.

        The brokers end a transaction on its partitions only after its producer was answered: so the
        reader waits for that first.
        """
        wait_until(lambda: self._ends(topic, COMMITTED) == self._ends(topic, UNCOMMITTED))
        found = read_topic(self.settings.connection, topic)
        return [(one.key(), one.value(), one.headers() or []) for one in found]

    def _ends(self, topic: str, isolation: IsolationLevel) -> dict[int, int]:
        # Untyped: its stubs know little of what listing offsets takes and gives.
        admin: Any = AdminClient(dict(self.settings.connection))
        known = admin.list_topics(topic).topics[topic].partitions
        asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in known}
        answers = admin.list_offsets(asked, isolation_level=isolation)
        return {place.partition: found.result().offset for place, found in answers.items()}


def make_world(
    bootstrap_servers: str, unique: str, *, native_sink: bool = True, replicas: int = 1
) -> World:
    """Make the topics of one test; what Kafka takes is 4 MB, but 1 MiB on the real topic."""
    connection = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
    pipeline = Settings(
        topic_prefix=unique, native_sink=native_sink, max_message_bytes=MESSAGE_BYTES_MAX
    )
    settings = SinkSettings(pipeline, unique, connection, 10_000)
    names, real = settings.topics, f"{unique}orders"
    wide = {"max.message.bytes": "4000000"}
    topics = [
        NewTopic(names.half, 1, replicas, config=wide),
        NewTopic(names.op, 1, replicas, config=wide),
        NewTopic(names.feedback, 1, replicas),
        NewTopic(names.refused, 1, replicas, config=wide),
        NewTopic(names.discarded, 1, replicas, config=wide),
        NewTopic(names.settled, 2, replicas),
        NewTopic(names.check("g"), 1, replicas, config=wide),
        NewTopic(real, 2, replicas, config={"max.message.bytes": "1048588"}),
    ]
    create_listed(AdminClient(connection), *topics)
    return World(settings, real)


def outcome(*decided: tuple[Action, int, int]) -> Outcome:
    """What page 0 decided: (action, offset, detail) each."""
    return page_outcome(0, *((action, at, detail, at) for action, at, detail in decided))


def of_halves(decided: Outcome, identities: Sequence[tuple[int, int]]) -> Outcome:
    """The same outcome, for halves of these identities."""
    first, rest = np.array(identities, np.int64).T
    return replace(decided, identity=first, identity_rest=rest)


def ids_of_halves(count: int, ids: str = "id") -> list[tuple[int, int]]:
    """Identities of that many halves of World.halves."""
    return [identity_words(b"g", f"{ids}-{number}".encode()) for number in range(count)]


def commits(*offsets: int) -> Outcome:
    return outcome(*((Action.COMMIT, offset, 0) for offset in offsets))
