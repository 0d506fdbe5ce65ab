"""An AdminClient, as far as the sink and operators of its markers use one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource, NewPartitions, NewTopic
from tests.fakes.kafka.awaits import Fault
from tests.fakes.kafka.cluster import Cluster
from tests.fakes.kafka.errors import timed_out
from tests.fakes.kafka.log import PartitionLog

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class AdminAnswer(Generic[Result]):
    """A future that has its result."""

    value: Result | None = None
    error: KafkaException | None = None

    def result(self, timeout: float | None = None) -> Result | None:
        """Return it.

        Raises:
            KafkaException: the cluster did not do it.
        """
        del timeout
        if self.error is not None:
            raise self.error
        return self.value


@dataclass(frozen=True, slots=True)
class Led:
    """What list_topics says of a partition: it is led, and all its replicas are in sync."""

    leader: int = 1
    replicas: tuple[int, ...] = (1,)
    isrs: tuple[int, ...] = (1,)


@dataclass(frozen=True, slots=True)
class Described:
    """What list_topics says of a topic."""

    partitions: dict[int, Led]
    error: None = None


@dataclass(frozen=True, slots=True)
class Metadata:
    """What list_topics says."""

    topics: dict[str, Described] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Config:
    """One setting of a topic."""

    value: str


def metadata_of(cluster: Cluster) -> Metadata:
    """Return the answer of the cluster to each client that lists its topics."""
    return Metadata(
        {
            name: Described(dict.fromkeys(range(len(topic.partitions)), Led()))
            for name, topic in cluster.topics.items()
        }
    )


class FakeAdminClient:
    """An AdminClient of the cluster.

    Args:
        cluster: whose.
        configuration: as confluent_kafka takes it; nothing of it matters.
    """

    def __init__(self, cluster: Cluster, configuration: Mapping[str, Any]) -> None:
        del configuration
        self._cluster = cluster

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Metadata:
        """Return all topics."""
        del topic, timeout
        if self._cluster.enter("list_topics") is Fault.REFUSED:
            raise timed_out("list_topics")
        found = metadata_of(self._cluster)
        self._cluster.awaits.after("list_topics")
        return found

    def describe_configs(
        self, resources: Sequence[ConfigResource], **_: Any
    ) -> dict[ConfigResource, AdminAnswer[dict[str, Config]]]:
        """Return the settings of topics."""
        refused = self._cluster.enter("describe_configs") is Fault.REFUSED
        found = {one: self._configs(str(one.name), refused=refused) for one in resources}
        self._cluster.awaits.after("describe_configs")
        return found

    def create_topics(self, topics: Sequence[NewTopic], **_: Any) -> dict[str, AdminAnswer[None]]:
        """Make topics."""
        for one in topics:
            bytes_max = int((one.config or {}).get("max.message.bytes", 0))
            self._cluster.create_topic(one.topic, one.num_partitions, bytes_max)
        return {one.topic: AdminAnswer() for one in topics}

    def create_partitions(
        self, topics: Sequence[NewPartitions], **_: Any
    ) -> dict[str, AdminAnswer[None]]:
        """Give topics more partitions."""
        wanted: Any = topics  # the stubs know none of its attributes
        for one in wanted:
            logs = self._cluster.topics[one.topic].partitions
            for number in range(len(logs), one.new_total_count):
                logs.append(PartitionLog(one.topic, number))
        return {one.topic: AdminAnswer() for one in wanted}

    def delete_consumer_groups(
        self, groups: Sequence[str], **_: Any
    ) -> dict[str, AdminAnswer[None]]:
        """Delete groups with all their offsets."""
        for name in groups:
            self._cluster.group(name).delete()
        return {name: AdminAnswer() for name in groups}

    def alter_consumer_group_offsets(
        self, requests: Sequence[ConsumerGroupTopicPartitions], **_: Any
    ) -> dict[str, AdminAnswer[ConsumerGroupTopicPartitions]]:
        """Set offsets of groups without members."""
        for one in requests:
            self._cluster.reset_offsets(one.group_id, list(one.topic_partitions or []))
        return {one.group_id: AdminAnswer(one) for one in requests}

    def _configs(self, name: str, *, refused: bool) -> AdminAnswer[dict[str, Config]]:
        topic = self._cluster.topics.get(name)
        if refused:
            return AdminAnswer(error=timed_out("describe_configs"))
        if topic is None:
            error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, name)
            return AdminAnswer(error=KafkaException(error))
        policy = "compact" if topic.is_compacted else "delete"
        limit = str(topic.bytes_max)
        return AdminAnswer({"max.message.bytes": Config(limit), "cleanup.policy": Config(policy)})
