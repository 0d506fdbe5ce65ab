"""The life of a producer: made, running, shut down; in the process that started it only."""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from types import TracebackType
from typing import Self, Unpack

from checkback.client.counters import Counters
from checkback.client.kafka_clients import KafkaClients
from checkback.client.options import ProducerKeywords, ProducerOptions
from checkback.client.running import Running
from checkback.client.unique_ids import unique_ids
from checkback.client.validation import check_group
from checkback.protocol.errors import LifeCycleError, PrerequisiteError
from checkback.protocol.topics import TopicNames

_log = logging.getLogger(__name__)


class ServiceState(Enum):
    """RocketMQ's service states, as far as they can be seen here."""

    CREATE_JUST = "not started"
    RUNNING = "running"
    SHUTDOWN_ALREADY = "shut down"


class ManagedProducer(ABC):
    """What all producers have in common. Threads may share one; a forked child may not use it.

    Args:
        producer_group: the group it belongs to.
        bootstrap_servers: Kafka brokers, host:port, separated by commas.
        options: see `ProducerOptions`.

    Raises:
        ConfigurationError: the group or an option is not usable.
    """

    def __init__(
        self, producer_group: str, *, bootstrap_servers: str, **options: Unpack[ProducerKeywords]
    ) -> None:
        check_group(producer_group)
        self.producer_group = producer_group
        self.options = ProducerOptions(**options)
        self.topics = TopicNames(self.options.topic_prefix)
        self.counters = Counters(self.options.on_event)
        client_id = f"{producer_group}@{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._clients = KafkaClients(bootstrap_servers, client_id, self.options)
        self._running = Running()
        self._state = ServiceState.CREATE_JUST
        self._state_lock = threading.Lock()
        self._process_id = os.getpid()
        self._new_id = unique_ids()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.shutdown()

    @property
    def service_state(self) -> ServiceState:
        """Where in its life the producer is."""
        return self._state

    def start(self) -> None:
        """Connect. Can be done once; one that failed can be tried again.

        Raises:
            LifeCycleError: it was started before.
            BrokerError: Kafka can't be reached or is not set up.
            PrerequisiteError: the process can start no more threads.
        """
        with self._state_lock:
            if self._state is not ServiceState.CREATE_JUST:
                raise LifeCycleError(
                    f"The producer of group {self.producer_group} is {self._state.value}.",
                    remedy="Make a new one; each can be started once.",
                )
            self._process_id = os.getpid()
            # Again: a producer made before a fork and started after it would share its ids
            # with its siblings.
            self._new_id = unique_ids()
            try:
                self._open()
            except BaseException as error:
                self._close(lambda: 0.0)
                if not isinstance(error, RuntimeError):
                    raise
                raise PrerequisiteError(  # of threading.Thread.start
                    f"The producer of group {self.producer_group} can't be started: {error}.",
                    remedy="Allow the process more threads (ulimit -u), or end some.",
                ) from error
            self._state = ServiceState.RUNNING

    def shutdown(self) -> int:
        """Stop taking messages, wait for what is running, close; does nothing a second time.

        Not for a signal handler, which may interrupt the producer inside a lock: set a flag there.

        Returns:
            How many sends and check answers still ran when ``shutdown_timeout_ms`` was over.
            Checks will ask how the transactions among them ended. The futures of plain sends end
            with a SendError.
        """
        if os.getpid() != self._process_id:  # a forked child, which may lack who holds the lock
            return 0
        with self._state_lock:
            was, self._state = self._state, ServiceState.SHUTDOWN_ALREADY
        if was is not ServiceState.RUNNING:
            return 0
        deadline_s = time.monotonic() + self.options.shutdown_timeout_ms / 1000
        try:
            left = self._close(lambda: max(0.0, deadline_s - time.monotonic()))
        except BaseException:  # Ctrl-C: nothing may go on unattended
            self._close(lambda: 0.0)
            raise
        if left:
            _log.warning(
                "The producer of group %s was shut down while %d sends or check answers ran",
                self.producer_group, left,
            )  # fmt: skip
        return left

    @abstractmethod
    def _open(self) -> None:
        """Open what the producer needs; called by start."""

    @abstractmethod
    def _close(self, left_s: Callable[[], float]) -> int:
        """Close what was opened, in the time that is left; return how much was left running."""

    def _require_running(self) -> None:
        if self._process_id != os.getpid():
            raise LifeCycleError(
                "The producer belongs to the process that made it; a fork can't use it.",
                remedy="Make and start a producer in each process, after the fork.",
            )
        if self._state is not ServiceState.RUNNING:
            raise LifeCycleError(
                f"The producer of group {self.producer_group} is {self._state.value}.",
                remedy="Call start() first, and make a new one after shutdown().",
            )
