"""What is known of the topics that are written to: do they exist, how wide, how large a record.

Looked up, not decided by: whatever a task does with the answer becomes true only with the
transaction that it commits, so a second try that sees other topics can't contradict the first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka_error import cause_of

TIMEOUT_S: Final = 30.0
BROKER_DEFAULT_BYTES_MAX: Final = 1_048_588


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """A topic that exists.

    Args:
        partitions: how many.
        record_batch_bytes_max: its max.message.bytes; it bounds a record batch, not one record.
        needs_key: it is compacted, and takes no record without a key.
    """

    partitions: int
    record_batch_bytes_max: int
    needs_key: bool = False


@dataclass(slots=True)
class TopicDirectory:
    """Topics of a cluster, remembered for a worker's life.

    Args:
        admin: the connection; shared with nobody.
    """

    admin: AdminClient
    _partitions: dict[str, int] = field(default_factory=dict)
    _known: dict[str, KnownTopic] = field(default_factory=dict)
    _is_fresh: bool = False

    def expect_change(self) -> None:
        """Allow one new look at the cluster: call it once per task."""
        self._is_fresh = False

    def forget(self, topic: str) -> None:
        """Drop what is known of a topic: a broker just contradicted it."""
        self._known.pop(topic, None)
        self._partitions.pop(topic, None)
        self._is_fresh = False

    def forget_all(self) -> None:
        """Drop everything that is known."""
        self._known.clear()
        self._partitions.clear()
        self._is_fresh = False

    def find(self, topic: str) -> KnownTopic | None:
        """Return what is known of a topic, None where it does not exist.

        All topics are listed at once: asking for one by name makes some brokers create it.
        """
        known = self._known.get(topic)
        if known is not None:
            return known
        if topic not in self._partitions and not self._is_fresh:
            self._list()
        partitions = self._partitions.get(topic)
        if partitions is None:
            return None
        known = self._look_at(topic, partitions)
        self._known[topic] = known
        return known

    def _list(self) -> None:
        try:
            metadata = self.admin.list_topics(timeout=TIMEOUT_S)
        except KafkaException as error:
            raise BrokerError(
                f"The topics can't be listed: {cause_of(error).str()}.",
                remedy="Check that the brokers are up and that the pipeline may describe topics.",
            ) from error
        self._partitions = {
            name: len(topic.partitions)
            for name, topic in metadata.topics.items()
            if topic.error is None
        }
        self._is_fresh = True

    def _look_at(self, topic: str, partitions: int) -> KnownTopic:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        try:
            configs = self.admin.describe_configs([resource])[resource].result(TIMEOUT_S)
        except KafkaException:
            # Not allowed to look: assume the defaults; a broker that disagrees says so later.
            return KnownTopic(partitions, BROKER_DEFAULT_BYTES_MAX)
        bytes_max = int(configs["max.message.bytes"].value or BROKER_DEFAULT_BYTES_MAX)
        needs_key = "compact" in (configs["cleanup.policy"].value or "")
        return KnownTopic(partitions, bytes_max, needs_key)
