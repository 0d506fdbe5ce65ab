"""A Kafka producer that is replaced when it can't be trusted any more, and what it knows."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from checkback.client.fault_tolerance import FaultTable
from checkback.client.partition_watch import PartitionWatch
from checkback.client.watched_network import WatchedNetwork
from checkback.protocol.errors import BrokerError

_log = logging.getLogger(__name__)


@dataclass
class Channel:
    """One Kafka producer with the watch that follows it.

    Args:
        topic: the topic whose partitions are followed.
        faults: shared with the channels before and after.
    """

    topic: str
    faults: FaultTable
    watch: PartitionWatch = field(default_factory=PartitionWatch)
    producer: Any = None
    _network: Any = None

    def network(self, **settings: Any) -> WatchedNetwork:
        """Return the network client that the Kafka producer asks for when it is made."""
        return WatchedNetwork(self.topic, self.watch, self.faults, self._opened, **settings)

    def leaders(self, topic: str) -> dict[int, int | None]:
        """Return the leader broker of each partition of a topic, None where it has none.

        Raises:
            BrokerError: the topic does not exist, may not be seen, or Kafka does not answer.
        """
        try:
            partitions = self.producer.partitions_for(topic)
        except KafkaError as error:
            raise BrokerError(
                f"The topic {topic} can't be seen: {type(error).__name__}.",
                remedy="Create it, and check topic_prefix, access rights and the brokers.",
                topic=topic,
            ) from error
        cluster = self._network.cluster
        found = {
            one: cluster.leader_for_partition(TopicPartition(topic, one)) for one in partitions
        }
        return {one: leader if leader != -1 else None for one, leader in found.items()}

    def _opened(self, network: Any) -> None:
        self._network = network


class RenewedChannel:
    """The current channel. Threads may share it.

    Args:
        open_producer: opens a Kafka producer, given the network client to use.
        topic: the topic whose partitions are followed.
        close_timeout_s: how long a replaced producer may take to end what it holds.
    """

    def __init__(
        self,
        open_producer: Callable[[Callable[..., Any]], Any],
        topic: str,
        close_timeout_s: float,
    ) -> None:
        self._open_producer = open_producer
        self._topic = topic
        self._close_timeout_s = close_timeout_s
        self._lock = threading.Lock()
        self.faults = FaultTable()
        self._current = self._open()

    def current(self) -> Channel:
        """Return the channel to use now."""
        return self._current

    def renew(self, used: Channel) -> None:
        """Replace a channel, unless another thread did so already.

        The old producer ends what it holds in the background: other threads wait for it.

        Raises:
            BrokerError: Kafka can't be reached; the old channel stays.
        """
        with self._lock:
            if self._current is not used:
                return
            self._current = self._open()
        _log.info("Opened a new Kafka producer for %s", self._topic)
        threading.Thread(
            target=self._end, args=(used,), name=f"checkback-close-{self._topic}", daemon=True
        ).start()

    def close(self, timeout_s: float) -> None:
        """Send what is held, then close."""
        _close(self._current, timeout_s)

    def _open(self) -> Channel:
        channel = Channel(self._topic, self.faults)
        channel.producer = self._open_producer(functools.partial(Channel.network, channel))
        return channel

    def _end(self, used: Channel) -> None:
        _close(used, self._close_timeout_s)


def _close(channel: Channel, timeout_s: float) -> None:
    try:
        channel.producer.close(timeout_s)
    except KafkaError as error:
        # What it held was reported to whoever waited for it.
        _log.info("A Kafka producer was closed with records unsent: %s", error)
        channel.producer.close(0)
