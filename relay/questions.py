"""What a relay asks the brokers: ends of partitions, and positions that groups have committed.

`Question` asks in a thread, so that the relay's loop does not wait (docs/decisions/relay.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from checkback.protocol.errors import BrokerError
from checkback.relay.partition import JobPosition
from checkback.sinks.kafka.read.list_offsets import Place, listed_offsets
from checkback.sinks.kafka.transaction.errors import cause_of
from checkback.sinks.kafka.transaction.marker import UNREAD, committed_offsets

ASK_S: Final = 5.0
ASK_AGAIN_S: Final = 20.0
"""How long requests are repeated while brokers are down or elect leaders."""
Answer = TypeVar("Answer")


@dataclass(slots=True)
class Question(Generic[Answer]):
    """A question about partitions, which a thread asks.

    Args:
        threads: ask it.
        answer_of: asks the brokers about partitions, and waits.
        pause_s: the least time between two questions.
    """

    threads: Executor
    answer_of: Callable[[list[int]], Answer]
    pause_s: float = 0.0
    _asked_s: float = float("-inf")
    _answer: Future[Answer] | None = None

    def ask(self, numbers: Iterable[int]) -> None:
        """Ask now, unless an answer is still to come or the last question is young."""
        now_s = time.monotonic()
        if self._answer is not None or now_s - self._asked_s < self.pause_s:
            return
        asked = [*numbers]
        if asked:
            self._asked_s = now_s
            self._answer = self.threads.submit(self.answer_of, asked)

    def answer(self) -> tuple[float, Answer] | None:
        """Return when the last question was asked, and its answer, once; None while there is none.

        Raises:
            BrokerError: the brokers refuse, or do not answer in time.
        """
        if self._answer is None or not self._answer.done():
            return None
        found, self._answer = self._answer.result(), None
        return self._asked_s, found


def ends(admin: AdminClient, topic: str, numbers: Iterable[int]) -> dict[int, int]:
    """Return where partitions end, records of open transactions included.

    Raises:
        BrokerError: the brokers refuse, or do not answer in time.
    """
    places = [(topic, number) for number in numbers]
    found = listed_offsets(admin, places, timeout_s=ASK_S, retry_s=ASK_AGAIN_S)
    return {number: end for (_, number), end in found.items()}


@dataclass(slots=True)
class JobOffsets:
    """How far the job has read and written: the offsets that it commits (rule 10).

    Args:
        group: the consumer group for which it commits them.
        decided: the decided topic.
        half: the half topic.
    """

    connection: Mapping[str, Any]
    group: str
    decided: str
    half: str
    _consumer: Consumer = field(init=False)

    def __post_init__(self) -> None:
        # It reads nothing. The administrator's call for a group's offsets can end the process if a
        # connection breaks at the wrong moment (librdkafka #3663, #4605).
        own = {"group.id": self.group, "enable.auto.commit": False}
        self._consumer = Consumer({**self.connection, **own})

    def of_partitions(self, numbers: list[int]) -> dict[int, JobPosition]:
        """Return how far the job has come in partitions; none while the brokers can't say it."""
        wanted = [TopicPartition(of, at) for at in numbers for of in (self.decided, self.half)]
        found = positions_of(self._consumer, self.group, wanted) or {}
        return {
            at: JobPosition(found.get((self.decided, at), 0), found.get((self.half, at), 0))
            for at in numbers
        }

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()


def positions_of(
    consumer: Consumer, group: str, wanted: list[TopicPartition]
) -> dict[Place, int] | None:
    """Return what a group has committed; None if the brokers can't say it yet.

    Raises:
        BrokerError: the brokers refuse.
    """
    try:
        # One try: where the coordinator is still looked for, the caller asks again.
        found = committed_offsets(consumer, wanted, until_s=time.monotonic())
    except KafkaException as error:
        cause = cause_of(error)
        if cause.code() in UNREAD or cause.retriable():
            return None
        raise BrokerError(
            f"The position of the group {group} can't be read: {cause.str()}.",
            remedy="Check the brokers, and the relay's rights on the group.",
            code=cause.name(),
        ) from error
    return {(at.topic, at.partition): at.offset for at in found if at.offset >= 0}
