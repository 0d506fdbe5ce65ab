"""The producer of plain messages, and the life of every producer: made, running, shut down."""

from __future__ import annotations

import atexit
import logging
import os
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from enum import Enum
from types import TracebackType
from typing import Any, Final, Self, Unpack

from checkback.client.kafka.connections import KafkaClients
from checkback.client.kafka.queue_selection import MessageQueueSelector
from checkback.client.kafka.topics import TopicFacts
from checkback.client.message import Message, MessageQueue
from checkback.client.observing.counters import Counters
from checkback.client.options import ProducerKeywords, ProducerOptions
from checkback.client.results import SendResult
from checkback.client.sending.plain import PlainSender, plain_headers
from checkback.client.validation import require_group, require_message, require_not_delayed
from checkback.protocol.errors import BrokerError, LifeCycleError, NotFoundError, PrerequisiteError
from checkback.protocol.record_size import record_bytes_max
from checkback.protocol.topics import TopicNames

_log = logging.getLogger(__name__)

ID_BYTES: Final = 16
SEED_BYTES: Final = 32
LOOK_S: Final = 0.005


PATCHERS: Final = (
    ("gevent.monkey", "is_module_patched", "threading"),
    ("eventlet.patcher", "is_monkey_patched", "thread"),
)
"""Modules that may have replaced threads, and how they are asked whether they did."""


def require_threads() -> None:
    """Refuse a process whose threads are no threads: librdkafka waits in them, and stops them all.

    Raises:
        PrerequisiteError: gevent or eventlet replaced them.
    """
    for module, question, threads in PATCHERS:
        if module in sys.modules and getattr(sys.modules[module], question)(threads):
            name = module.partition(".")[0]
            raise PrerequisiteError(
                f"{name} has replaced this process's threads; librdkafka would stop all of them.",
                remedy="Run the producer in workers with threads (gunicorn -k gthread),"
                " or in a process of its own.",
            )


def unique_ids() -> Callable[[], str]:
    """Return a function that makes ids: 32 random hex digits, seeded by the operating system.

    Call it in the process that needs the ids: after a fork, parent and child would make the same
    ones. Threads may share it.
    """
    bits = random.Random(os.urandom(SEED_BYTES)).getrandbits  # noqa: S311 - ids are no secrets
    return lambda: bits(8 * ID_BYTES).to_bytes(ID_BYTES).hex()


class CallsInFlight:
    """A context manager that counts the threads inside it.

    Every message enters and leaves it, so it has no lock: a deque needs none. Only a shutdown
    polls it, and that happens once.
    """

    def __init__(self) -> None:
        self._inside: deque[None] = deque()

    def __enter__(self) -> Self:
        self._inside.append(None)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._inside.pop()

    def wait_until_idle(self, timeout_s: float) -> int:
        """Wait until no call is left, at most this long; return how many are."""
        deadline_s = time.monotonic() + timeout_s
        while self._inside and time.monotonic() < deadline_s:
            time.sleep(LOOK_S)
        return len(self._inside)


class ServiceState(Enum):
    """RocketMQ's service states, as far as they can be seen here."""

    CREATE_JUST = "not started"
    RUNNING = "running"
    SHUTDOWN_ALREADY = "shut down"


STARTED: Final[dict[str, DefaultMQProducer]] = {}
"""Producers that run, by check topic; in a child process those that ran in its parent."""

SendCallback = Callable[["Future[SendResult]"], None]
"""The producer calls it with the finished future, in a thread that serves all sends: a callback
that blocks holds them all up."""


class DefaultMQProducer:
    """Sends plain messages. One may be stored twice; none is lost without an error or a log line.

    Threads may share a producer. In a process, one producer of a group runs at a time: it answers
    the group's checks, which another's listener may know nothing of. A process that was forked
    while a producer ran can start none.

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
        require_group(producer_group)
        self.producer_group = producer_group
        self.options = ProducerOptions(**options)
        self.topics = TopicNames(self.options.topic_prefix)
        self.counters = Counters(self.options.on_event)
        self._clients = KafkaClients(bootstrap_servers, producer_group, self.options)
        self._running = CallsInFlight()
        self._state = ServiceState.CREATE_JUST
        self._state_lock = threading.Lock()
        self._process_id = os.getpid()
        self._new_id = unique_ids()
        self._facts = TopicFacts(self._clients.admin, self.options.send_msg_timeout_ms / 1000)
        self._plain: PlainSender | None = None
        self._plain_lock = threading.Lock()

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
            LifeCycleError: it was started before; another one of the group runs in this process;
                or the process was forked while a producer ran.
            BrokerError: Kafka can't be reached or is not set up.
            PrerequisiteError: the process can start no more threads, or gevent replaced them.
        """
        require_threads()
        require_no_parents()
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
            if STARTED.setdefault(self._check_topic, self) is not self:
                raise LifeCycleError(
                    f"Another producer of group {self.producer_group} runs in this process.",
                    remedy="Share that one among your threads, or name another group.",
                )
            try:
                self._open()
            except BaseException as error:
                self._close(lambda: 0.0)
                STARTED.pop(self._check_topic, None)
                if not isinstance(error, RuntimeError):
                    raise
                raise PrerequisiteError(  # of threading.Thread.start
                    f"The producer of group {self.producer_group} can't be started: {error}.",
                    remedy="Allow the process more threads (ulimit -u), or end some.",
                ) from error
            self._state = ServiceState.RUNNING
            atexit.register(self._end_with_process)

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
        return self._shut_down("was shut down")

    def _end_with_process(self) -> None:
        """Do what the application has forgotten: it gives the last ops to Kafka, too."""
        if os.getpid() == self._process_id:
            self._shut_down("ended with its process, without shutdown(),")

    def _shut_down(self, how: str) -> int:
        with self._state_lock:
            was, self._state = self._state, ServiceState.SHUTDOWN_ALREADY
        if was is not ServiceState.RUNNING:
            return 0
        atexit.unregister(self._end_with_process)
        deadline_s = time.monotonic() + self.options.shutdown_timeout_ms / 1000
        try:
            left = self._close(lambda: max(0.0, deadline_s - time.monotonic()))
        except BaseException:  # Ctrl-C: nothing may go on unattended
            self._close(lambda: 0.0)
            raise
        finally:
            STARTED.pop(self._check_topic, None)
        if left:
            _log.warning(
                "The producer of group %s %s while %d sends or check answers ran;"
                " checks will ask how their transactions ended",
                self.producer_group, how, left,
            )  # fmt: skip
        return left

    @property
    def _check_topic(self) -> str:
        return self.topics.check(self.producer_group)

    def _require_running(self) -> None:
        if self._state is ServiceState.RUNNING:
            return
        require_no_parents()
        raise LifeCycleError(
            f"The producer of group {self.producer_group} is {self._state.value}.",
            remedy="Call start() first, and make a new one after shutdown().",
        )

    def send(
        self,
        message: Message,
        *,
        selector: MessageQueueSelector | None = None,
        argument: Any = None,
    ) -> SendResult:
        """Send and wait until all replicas have it (RocketMQ's SYNC).

        A message with a ``queue_id`` goes to that queue. Of a message with a record ``key`` the key
        chooses the queue, as in any Kafka client. For all others the producer takes the topic's
        queues by turns, those last whose brokers are away; where a broker goes away meanwhile, it
        takes another queue, and what the broker got all the same is there twice.

        Args:
            message: what to send.
            selector: chooses the queue instead.
            argument: the producer passes it to the selector.

        Raises:
            InvalidMessageError: the message can't be sent as it is.
            LifeCycleError: not started, shut down, or forked.
            BrokerError: the topic does not exist, or this user may not describe it.
            SendError: the message was not stored, or that is not known: then ``in_doubt`` is
                true.
        """
        sender = self._ready(message)
        with self._running:
            if selector is None:
                return sender.send(message, sender.by_turns(message), is_by_turns=True)
            return sender.send(message, sender.by_selector(message, selector, argument))

    def send_async(
        self, message: Message, callback: SendCallback | None = None
    ) -> Future[SendResult]:
        """Send without waiting (RocketMQ's ASYNC).

        Args:
            message: what to send.
            callback: the producer calls it when the send has ended.

        Returns:
            A future that ends with the result or the error, where no broker answers some seconds
            after ``send_msg_timeout_ms``.

        Raises:
            InvalidMessageError: the message can't be sent as it is.
            LifeCycleError: not started, shut down, or forked.
            BrokerError: the topic does not exist, or this user may not describe it.
            SendError: ``async_sends_max`` other sends are under way.
        """
        sender = self._ready(message)
        result = sender.send_async(message, sender.by_turns(message))
        if callback is not None:
            result.add_done_callback(callback)
        return result

    def send_one_way(self, message: Message) -> None:
        """Send and do not wait; a failure is logged and counted (RocketMQ's ONEWAY).

        Raises:
            InvalidMessageError: the message can't be sent as it is.
            LifeCycleError: not started, shut down, or forked.
            SendError: ``async_sends_max`` other sends are under way.
        """
        sender = self._ready(message)
        sender.send_one_way(message, sender.by_turns(message))

    def send_to_queue(self, message: Message, queue: MessageQueue) -> SendResult:
        """Send to that queue, and wait.

        Raises:
            InvalidMessageError: the message can't be sent as it is, or the topic has no such queue.
            LifeCycleError: not started, shut down, or forked.
            SendError: the message was not stored, or that is not known (field ``in_doubt``).
        """
        sender = self._ready(message)
        with self._running:
            return sender.send(message, sender.fixed(message, queue))

    def fetch_publish_message_queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic in order.

        Raises:
            LifeCycleError: not started, shut down, or forked.
            BrokerError: the topic does not exist, or this user may not describe it.
        """
        self._require_running()
        return self._plain_sender().queues(topic)

    @property
    def _tries_max(self) -> int:
        return 1 + self.options.retry_times_when_send_failed

    def _ready(self, message: Message) -> PlainSender:
        """Check the producer's state and the message; return the sender."""
        self._require_running()
        require_message(message, self.topics, self.options.max_message_size)
        require_not_delayed(message)
        size = record_bytes_max(message.record_key(), message.body, plain_headers(message, ""))
        try:
            self._facts.require_fits(message.topic, message, size)
        except NotFoundError as error:
            raise BrokerError(error.message, remedy=error.remedy, topic=message.topic) from error
        return self._plain_sender()

    def _open(self) -> None:
        """Open what the producer needs; called by start."""
        self._facts.start()
        self._plain = self._new_plain_sender()

    def _plain_sender(self) -> PlainSender:
        """Return the sender; the first call opens it, and with it a second connection to Kafka.

        Raises:
            LifeCycleError: the producer was shut down meanwhile.
        """
        with self._plain_lock:
            if self._plain is None:
                self._require_running()
                self._plain = self._new_plain_sender()
            return self._plain

    def _new_plain_sender(self) -> PlainSender:
        return PlainSender(
            self._clients.plain_producer, self._facts, self._new_id, self.options, self.counters
        )

    def _close(self, left_s: Callable[[], float]) -> int:
        """Close what was opened, in the time that is left; return how much was left running."""
        left = self._running.wait_until_idle(left_s())
        self._facts.close()
        with self._plain_lock:
            plain = self._plain
        if plain is not None:
            left += plain.close(left_s())
        return left


def require_no_parents() -> None:
    """Refuse a process that was forked while a producer ran.

    It lacks the threads of that producer, but not the locks that they held: one that was just
    connecting holds locks of the C library and of OpenSSL. A child that connected hung for ever in
    11 of 100 forks right after the first send.

    Raises:
        LifeCycleError: this is such a process.
    """
    if any(other._process_id != os.getpid() for other in STARTED.values()):  # noqa: SLF001 - this module's own class
        raise LifeCycleError(
            "This process was forked while a producer ran in its parent; it can't use one.",
            remedy="Fork before the first producer starts (a `Producer` starts at its first send),"
            " or start the process without a fork (multiprocessing's spawn or forkserver).",
        )


def _forked() -> None:
    """Refuse sends in a child process: it lacks the threads of its parent's producers."""
    for producer in STARTED.values():
        producer._state = ServiceState.SHUTDOWN_ALREADY  # noqa: SLF001 - of this module's own class


os.register_at_fork(after_in_child=_forked)
