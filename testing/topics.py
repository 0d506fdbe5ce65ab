"""Topics for tests: creates, writes and reads Checkback's topics and an application's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from checkback.deploy.admin import admin_client
from checkback.deploy.topics import create_missing, create_topics, find_topics
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError
from checkback.protocol.properties import ERROR_HEADER_PREFIX, text_value
from checkback.protocol.records import Op, half_headers
from checkback.protocol.topics import TopicNames, TopicPlan
from checkback.sinks.kafka.read.errors import require_passing
from checkback.testing.pipeline_process import QUICK_SPARK

COMMIT: Final = 8
ROLLBACK: Final = 12
UNKNOWN: Final = 0
READ_TIMEOUT_S: Final = 20.0
END_WAIT_MS: Final = 50
"""How long the broker waits for further records before it says that a partition ends. Kafka's
default of 500 ms made every look at a topic last half a second."""
SEND_TIMEOUT_S: Final = 60.0
SMALL: Final[Mapping[str, object]] = {
    "state_partitions": 2,
    "master": "local[2]",
    "transaction_timeout_ms": 1_500,
    "check_interval_ms": 1_500,
    "check_max": 3,
    "progress_interval_ms": 500,
    "spark": {**QUICK_SPARK},
}
"""Settings of a pipeline in a test: what takes minutes in production takes seconds here."""


def create_plain_topics(
    settings: Settings,
    names: Iterable[str],
    partitions: int = 2,
    configs: Mapping[str, str] | None = None,
) -> None:
    """Create the missing topics of an application.

    Raises:
        BrokerError: Kafka can't be reached, or refuses.
    """
    create_missing(settings, [TopicPlan(name, partitions, configs or {}) for name in names])


def delete_topics(settings: Settings, names: Iterable[str]) -> None:
    """Delete the topics that exist.

    Raises:
        BrokerError: Kafka can't be reached, or refuses.
    """
    with admin_client(settings.bootstrap_servers, settings.kafka) as admin:
        admin.delete_topics(list(find_topics(admin, list(names))))


def read_topic(
    connection: Mapping[str, Any], topic: str, isolation: str = "read_committed"
) -> list[Message]:
    """Return the records that a consumer of a topic sees now, partition by partition in any order.

    Raises:
        BrokerError: the topic does not exist, or is not read to its end in time.
    """
    own = {
        "group.id": "reader",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": isolation,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": END_WAIT_MS,
    }
    with closing(Consumer({**connection, **own})) as consumer:
        return _read_to_end(consumer, topic)


def _read_to_end(consumer: Consumer, topic: str) -> list[Message]:
    partitions = consumer.list_topics(topic, 10).topics[topic].partitions
    if not partitions:
        raise BrokerError(f"The topic {topic} does not exist.", topic=topic)
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    found: list[Message] = []
    ended = 0
    while ended < len(partitions):
        message = consumer.poll(READ_TIMEOUT_S)
        if message is None:
            raise BrokerError(f"{topic} could not be read to its end.", topic=topic)
        error = message.error()
        if error is None:
            found.append(message)
        else:
            require_passing(error, topic, message.partition())
            ended += error.code() == KafkaError._PARTITION_EOF
    return found


@dataclass
class Topics:
    """Checkback's topics on a broker, under a prefix of their own.

    Args:
        prefix: prefix of their names; no other test uses it.
        kafka: ``kafka.*`` settings of every client, for a broker with TLS or passwords.
    """

    bootstrap_servers: str
    prefix: str
    half_partitions: int = 2
    kafka: Mapping[str, str] = field(default_factory=dict)
    _producer: Producer | None = field(default=None, repr=False)

    @property
    def names(self) -> TopicNames:
        """The names of Checkback's topics."""
        return TopicNames(self.prefix)

    @property
    def connection(self) -> dict[str, Any]:
        """Connection settings of librdkafka, without error logs when the broker ends first."""
        return {**Settings(bootstrap_servers=self.bootstrap_servers, kafka=self.kafka).connection()}

    def settings(self, checkpoint: Path | str = "", **changes: Any) -> Settings:
        """Return a pipeline's settings, with intervals short enough for a test."""
        own: dict[str, Any] = {
            **SMALL,
            "bootstrap_servers": self.bootstrap_servers,
            "checkpoint": str(checkpoint),
            "topic_prefix": self.prefix,
            "half_partitions": self.half_partitions,
            "kafka": self.kafka,
        }
        return Settings(**{**own, **changes})

    def create(
        self,
        settings: Settings | None = None,
        real: Sequence[str] = (),
        groups: Sequence[str] = (),
    ) -> None:
        """Create the missing topics of Checkback and of an application.

        Raises:
            BrokerError: Kafka can't be reached, or refuses.
        """
        chosen = settings or self.settings()
        create_topics(chosen)
        create_plain_topics(chosen, real)
        create_plain_topics(chosen, [self.names.check(group) for group in groups], partitions=1)

    def send_half(
        self,
        body: bytes,
        real: str,
        *,
        partition: int = 0,
        transaction_id: str | None = None,
        group: str = "g",
        key: bytes | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> tuple[int, int]:
        """Store a half message like a producer that dies right after it.

        Args:
            body: body of the message.
            real: the real topic.
            partition: partition of the half topic.
            transaction_id: the transaction id; default: the body.
            group: producer group.
            key: the record's key.
            properties: properties of the message.

        Returns:
            Partition and offset of the half.

        Raises:
            BrokerError: it was not stored.
        """
        headers = half_headers(
            producer_group=group,
            transaction_id=transaction_id or body.decode(),
            real_topic=real,
            properties=properties or {},
        )
        return self.send_raw(self.names.half, body, headers, partition, key)

    def send_op(
        self, at: tuple[int, int], transaction_id: str, state: int, *, group: str = "g"
    ) -> None:
        """Store an op.

        Raises:
            BrokerError: it was not stored.
        """
        op = Op(at[0], at[1], group, transaction_id, state)
        self.send_raw(self.names.op, op.value(), op.headers(), at[0], op.key())

    def send_raw(
        self,
        topic: str,
        value: bytes | None,
        headers: Any,
        partition: int = 0,
        key: bytes | None = None,
    ) -> tuple[int, int]:
        """Store any record; return its partition and offset.

        Raises:
            BrokerError: it was not stored.
        """
        if self._producer is None:
            self._producer = Producer({**self.connection, "linger.ms": 0, "acks": "all"})
        stored: list[Message] = []
        failed: list[str] = []
        self._producer.produce(
            topic,
            value,
            key,
            partition,
            headers=headers,
            on_delivery=lambda error, message: (
                stored.append(message) if error is None else failed.append(error.str())
            ),
        )
        self._producer.flush(SEND_TIMEOUT_S)
        if not stored:
            raise BrokerError(f"Not stored on {topic}: {failed or 'no answer'}.", topic=topic)
        return cast("int", stored[0].partition()), cast("int", stored[0].offset())

    def read(self, topic: str, isolation: str = "read_committed") -> list[Message]:
        """Return all records that a consumer of a topic sees now.

        Raises:
            BrokerError: the topic does not exist, or is not read to its end in time.
        """
        return read_topic(self.connection, topic, isolation)

    def bodies(self, topic: str) -> list[str]:
        """Return the bodies that a consumer of a topic sees now, sorted."""
        return sorted((message.value() or b"").decode() for message in self.read(topic))

    def reasons(self) -> list[str]:
        """Return the reason codes of the refused records, sorted."""
        name = f"{ERROR_HEADER_PREFIX}reason"
        refused = self.read(self.names.refused)
        return sorted(text_value(message.headers() or [], name) or "" for message in refused)
