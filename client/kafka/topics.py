"""What the brokers say of topics: who leads which partition, and how large a record may be.

The producer asks when a topic is first used. Later sends use the remembered answer, and the
producer renews an old answer in the background.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException

from checkback.client.kafka.errors import cause_of
from checkback.client.listener import one_line
from checkback.client.message import Message
from checkback.protocol.errors import BrokerError, InvalidMessageError, NotFoundError

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_log = logging.getLogger(__name__)

LEADERS_KEPT_S: Final = 10.0
LIMITS_KEPT_S: Final = 60.0
"""Also how long a topic that was deleted may go on being sent to: two small questions a minute for
each topic are nothing to the brokers, and a half whose topic is gone is refused after its commit.
"""
UNSEEN_KEPT_S: Final = 30.0
"""How long before asking again about a topic that this user may not describe."""
UNASKED: Final = (None, None)
SECOND_LOOK_S: Final = 0.3
"""A topic that was created a moment ago is not known to every broker yet."""


@dataclass(slots=True)
class TopicLeaders:
    """What is known of a topic's partitions.

    Args:
        leaders: the leader broker of each partition, None where it has none.
        led: its partitions that have a leader, in order; all of them where none has.
        until_s: when they have to be asked for again, by the monotonic clock.
    """

    leaders: Mapping[int, int | None]
    led: tuple[int, ...]
    until_s: float


@dataclass(slots=True)
class _Question:
    """A topic that is being asked about, once at a time.

    Args:
        missing_s: when a broker last said that there is no such topic, by the monotonic clock.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    missing_s: float = 0.0


class TopicFacts:
    """Knows the topics that one producer sends to. Threads may share it.

    Args:
        open_admin: opens an admin client; called once, when there is a first question.
    """

    def __init__(self, open_admin: Callable[[], AdminClient], timeout_s: float) -> None:
        self._open_admin = open_admin
        self._admin: AdminClient | None = None
        self._timeout_s = timeout_s
        self._topics: dict[str, TopicLeaders] = {}
        self._limits: dict[str, tuple[int | None, float]] = {}
        self._learning: dict[str, _Question] = {}
        self._asking: set[tuple[str, Callable[[str], object]]] = set()
        self._lock = threading.Lock()
        self._questions: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def start(self) -> None:
        """Start the thread that asks again about what is known already.

        Raises:
            RuntimeError: the process can start no more threads.
        """
        self._questions = SimpleQueue()
        questions = self._questions
        threading.Thread(
            target=_ask_all, args=(questions,), name="checkback-topics", daemon=True
        ).start()

    def close(self) -> None:
        """End the thread."""
        self._questions.put(None)

    @property
    def admin(self) -> AdminClient:
        """The admin client that asks."""
        with self._lock:
            if self._admin is None:
                self._admin = self._open_admin()
            return self._admin

    def knows(self, topic: str) -> bool:
        """Tell whether a topic's limit is known, or known to be hidden."""
        return topic in self._limits

    def knows_leaders(self, topic: str) -> bool:
        """Tell whether a question for a topic's partitions is answered from memory."""
        return topic in self._topics

    def topic(self, name: str) -> TopicLeaders:
        """Return what is known of a topic's partitions.

        Raises:
            NotFoundError: it does not exist.
            BrokerError: this user may not describe it, or Kafka does not answer.
        """
        known = self._topics.get(name)
        if known is None:
            return self._ask(name)
        if known.until_s < time.monotonic():
            self.refresh(name)
        return known

    def refresh(self, name: str) -> None:
        """Ask for a topic's partitions in the background, unless that is being done."""
        self._in_background(name, self._ask)

    def require_fits(self, topic: str, message: Message, size: int) -> None:
        """Refuse a message that makes a larger record than its topic takes, or has no topic.

        A topic that can't be asked (no right to describe it, no answer) counts as one without a
        limit: then the broker's own refusal says it later.

        Raises:
            NotFoundError: there is no such topic.
            InvalidMessageError: names the topic's limit.
        """
        limit, until_s = self._limits.get(topic, UNASKED)
        if until_s is None:
            limit = self.prepare(topic)
        elif until_s < time.monotonic():
            self._in_background(topic, self.prepare)
        if limit is not None and size > limit:
            raise InvalidMessageError(
                f"The message for {message.topic} makes a record of up to {size} bytes;"
                f" {topic} takes at most {limit} (max.message.bytes).",
                remedy="Make it smaller, or raise the topic's limit.",
                size=size,
                limit=limit,
            )

    def ask_limit(self, name: str) -> int | None:
        """Ask for the largest record that a topic takes; None where that can't be seen."""
        from confluent_kafka.admin import ConfigResource, ResourceType

        asked = ConfigResource(ResourceType.TOPIC, name)
        try:
            described = self.admin.describe_configs([asked], request_timeout=self._timeout_s)
            found = described[asked].result(self._timeout_s)
            return int(found["max.message.bytes"].value)
        except (KafkaException, TimeoutError, KeyError, TypeError, ValueError) as error:
            _log.info("The record limit of %s is not known: %s", name, one_line(error))
            return None

    def prepare(self, topic: str) -> int | None:
        """Ask for a topic, unless another thread did meanwhile; return its limit.

        The next send to it is then answered from memory.

        Raises:
            NotFoundError: there is no such topic.
        """
        began_s = time.monotonic()
        question = self._learning.setdefault(topic, _Question())
        with question.lock:
            limit, until_s = self._limits.get(topic, UNASKED)
            if until_s is not None and until_s >= time.monotonic():
                return limit
            if question.missing_s > began_s:
                # Else many threads would ask one after the other, the last one long after its
                # budget.
                raise _unseen(topic, KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
            try:
                self._ask(topic)
            except NotFoundError:
                question.missing_s = time.monotonic()
                # It is gone: the next send asks again, and says so.
                self._limits.pop(topic, None)
                self._learning.pop(topic, None)
                raise
            except BrokerError as error:
                _log.info("Nothing new is known of %s: %s", topic, one_line(error))
                kept_s = UNSEEN_KEPT_S
            else:
                limit, kept_s = self.ask_limit(topic), LIMITS_KEPT_S
            self._limits[topic] = limit, time.monotonic() + kept_s
            return limit

    def _in_background(self, name: str, ask: Callable[[str], object]) -> None:
        """Have the thread ask something about a topic, unless that is being done."""
        with self._lock:
            if (name, ask) in self._asking:
                return
            self._asking.add((name, ask))

        def run() -> None:
            try:
                ask(name)
            except (BrokerError, NotFoundError) as error:
                _log.info("Nothing new could be learned of %s: %s", name, one_line(error))
            finally:
                self._asking.discard((name, ask))

        self._questions.put(run)

    def _ask(self, name: str) -> TopicLeaders:
        """Ask for a topic's partitions, and remember them."""
        found = self._metadata(name)
        if found.error is not None and found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            time.sleep(min(SECOND_LOOK_S, self._timeout_s / 4))
            found = self._metadata(name)
        if found.error is not None:
            raise _unseen(name, found.error)
        now_s = time.monotonic()
        leaders = {
            number: None if one.leader < 0 else one.leader
            for number, one in sorted(found.partitions.items())
        }
        led = tuple(number for number, leader in leaders.items() if leader is not None)
        found_now = TopicLeaders(leaders, led or tuple(leaders), now_s + LEADERS_KEPT_S)
        self._topics[name] = found_now
        return found_now

    def _metadata(self, name: str) -> Any:
        try:
            return self.admin.list_topics(name, self._timeout_s).topics[name]
        except KafkaException as error:
            raise BrokerError(
                f"Kafka could not be reached to see the topic {name}: {cause_of(error).str()}.",
                remedy="Check bootstrap_servers, the brokers and the network.",
                topic=name,
            ) from error


def _ask_all(questions: SimpleQueue[Callable[[], None] | None]) -> None:
    while (question := questions.get()) is not None:
        try:
            question()
        except Exception:  # the next question needs the thread
            _log.exception("Nothing new could be learned of a topic")


def _unseen(name: str, error: KafkaError) -> BrokerError | NotFoundError:
    if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        return NotFoundError(
            f"The topic {name} can't be seen: it does not exist.",
            remedy="Create it, and check its name and topic_prefix.",
            topic=name,
        )
    return BrokerError(
        f"The topic {name} can't be seen: {error.str()}.",
        remedy="Check topic_prefix, access rights and the brokers.",
        topic=name,
    )
