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
    """The channel to use now. Threads may share it.

    kafka-python's idempotent producer does not survive every failure: a refusal is fatal to it,
    and after a batch that expired while it was repeated it waits for a producer id that it never
    asks for (3.0.12: reset_producer_id leaves the state READY). So one that failed is replaced.

    Args:
        open_producer: opens a Kafka producer, given what makes its network client.
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
        self._current: Channel | None = self._open()

    def current(self, timeout_s: float = -1) -> Channel:
        """Return the channel to use now, opened if the last one was retired.

        Args:
            timeout_s: how long to wait while another thread opens one; -1 for as long as it takes.

        Raises:
            BrokerError: Kafka can't be reached.
        """
        current = self._current
        if current is not None:
            return current
        if not self._lock.acquire(timeout=timeout_s):
            raise BrokerError("Kafka could not be reached in time.")
        try:
            if self._current is None:
                self._current = self._open()
                _log.info("Opened a new Kafka producer for %s", self._topic)
            return self._current
        finally:
            self._lock.release()

    def retire(self, used: Channel) -> None:
        """Use a channel no more. It ends what it holds in the background: others wait for that."""
        with self._lock:
            if self._current is not used:
                return
            self._current = None
        name = f"checkback-close-{self._topic}"
        threading.Thread(
            target=close_producer,
            args=(used.producer, self._close_timeout_s),
            name=name,
            daemon=True,
        ).start()

    def close(self, timeout_s: float) -> None:
        """Send what is held, then close."""
        if self._current is not None:
            close_producer(self._current.producer, timeout_s)

    def _open(self) -> Channel:
        channel = Channel(self._topic, self.faults)
        channel.producer = self._open_producer(functools.partial(Channel.network, channel))
        return channel


def close_producer(producer: Any, timeout_s: float) -> None:
    """Close a Kafka producer; what it can't send in time fails with whoever waits for it."""
    try:
        producer.close(timeout_s)
    except KafkaError as error:
        _log.info("A Kafka producer was closed with records unsent: %s", error)
        # close() waits for batches first, and has no way to end one whose batches never do.
        producer._sender.force_close()  # noqa: SLF001
