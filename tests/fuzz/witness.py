"""Reads, while the job runs, all that it writes for others, and keeps what it says of origins."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from typing import Any, NamedTuple, Self

from confluent_kafka import Consumer, Message, TopicPartition
from tests.fuzz.places import Places
from tests.fuzz.records import Fate
from tests.integration.running import Topics

Origin = tuple[str, int, int]
"""Topic, partition and offset of a record."""
QUIET_S = 3.0


class Sight(NamedTuple):
    """A record that tells of another one's fate."""

    fate: Fate
    reason: str
    topic: str
    at_s: float


class Witness:
    """A reader of committed records; as a context manager it reads inside the block."""

    def __init__(self, topics: Topics, places: Places) -> None:
        self.topics = topics
        self.real = frozenset(places.real)
        self.seen: defaultdict[Origin, list[Sight]] = defaultdict(list)
        self.failure: BaseException | None = None
        self.latest_s = time.monotonic()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def finish(self) -> None:
        """Read on until nothing comes, then stop."""
        while self._thread.is_alive() and time.monotonic() - self.latest_s < QUIET_S:
            time.sleep(0.1)
        self._is_over.set()
        self._thread.join(60)
        if self.failure is not None:
            raise self.failure

    def _read(self) -> None:
        consumer = self._consumer()
        try:
            while not self._is_over.is_set():
                for message in consumer.consume(1_000, 0.2):
                    assert message.error() is None, message.error()
                    self._take(message)
        except BaseException as error:
            self.failure = error
        finally:
            consumer.close()

    def _consumer(self) -> Consumer:
        consumer = Consumer(
            {
                **self.topics.connection,
                "group.id": "witness",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        names = self.topics.names
        known = consumer.list_topics(timeout=10).topics
        consumer.assign(
            [
                TopicPartition(name, number, 0)
                for name in (*self.real, names.refused, names.discarded)
                for number in known[name].partitions
            ]
        )
        return consumer

    def _take(self, message: Message) -> None:
        topic, names = str(message.topic()), self.topics.names
        # The pipeline's headers come last: a sender may have written such ones before.
        said: dict[str, Any] = dict(message.headers() or [])
        self.latest_s = time.monotonic()
        if topic == names.refused:
            origin, reason = refused_origin(said), said["__checkback.errors.reason"].decode()
            sight = Sight(Fate.REFUSED, reason, topic, self.latest_s)
        else:
            fate = Fate.FINAL if topic in self.real else Fate.DISCARDED
            partition, offset = said["TRAN_HALF_QUEUE_ID"], said["TRAN_PREPARED_QUEUE_OFFSET"]
            origin = (names.half, int(partition), int(offset))
            sight = Sight(fate, "", topic, self.latest_s)
        self.seen[origin].append(sight)


def refused_origin(said: dict[str, bytes]) -> Origin:
    """Return where the refused record stands."""
    at = [said[f"__checkback.errors.{name}"].decode() for name in ("topic", "partition", "offset")]
    return at[0], int(at[1]), int(at[2])
