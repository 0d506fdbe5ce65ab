"""Finds partitions that an open Kafka transaction holds up.

The pipeline reads what is committed. So one transaction that any producer leaves open on the half
or op topic holds up all records from its first one on, until the broker aborts it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import AdminClient
from kafka import TopicPartition as KafkaPythonPartition
from kafka.errors import KafkaError

from checkback.metrics.printable import printable
from checkback.protocol.configuration import Settings
from checkback.protocol.connection import kafka_python_settings
from checkback.protocol.durations import duration_text
from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka.cluster.kafka_python_admin import new_admin_client
from checkback.sinks.kafka.read.list_offsets import LATEST, Place, listed_offsets, places_of
from checkback.streaming.reports.unread import Unread, UnreadHistory

STALLED_AFTER_S: Final = 10.0
TIMEOUT_S: Final = 10.0
LEADER_S: Final = 2.0
ANSWER_MS_MAX: Final = 10_000
"""The driver's loop waits for what this asks, and kafka-python's own 30 s apply to each step."""
UNKNOWN: Final = -1
ID_CHARACTERS_MAX: Final = 255
"""Kafka takes transactional ids of 32 KB, and each progress line names them."""


@dataclass(frozen=True, slots=True)
class Stall:
    """A partition that is not read further.

    Args:
        offset: where reading stands: the first record of the open transaction.
        waiting: how many offsets wait from there on.
        stalled_s: for how long at least.
        producer_id: of the producer that has the transaction open; -1 where it is not known.
        transactional_id: its transactional id, "" where it is not known; of a long one the first
            ID_CHARACTERS_MAX.
    """

    topic: str
    partition: int
    offset: int
    waiting: int
    stalled_s: float
    producer_id: int = UNKNOWN
    transactional_id: str = ""

    def says(self) -> str:
        """Return the stall as a sentence."""
        who = f"producer {self.producer_id}" if self.producer_id != UNKNOWN else "a producer"
        named = f" ({printable(self.transactional_id)})" if self.transactional_id else ""
        stalled = duration_text(round(self.stalled_s) * 1_000)
        return (
            f"{self.topic}-{self.partition} has stood still at offset {self.offset} for "
            f"{stalled}: {who}{named} has a Kafka transaction open there"
        )

    def remedy(self, bootstrap_servers: str) -> str:
        """Return what to do, with Kafka's command to type.

        Args:
            bootstrap_servers: of the command; empty to leave them to the reader.
        """
        servers = f"--bootstrap-server {bootstrap_servers} " if bootstrap_servers else ""
        return (
            f"End that producer, or abort its transaction: `kafka-transactions.sh {servers}abort "
            f"--topic {self.topic} --partition {self.partition} --start-offset {self.offset}`."
        )


@dataclass(slots=True)
class StallHistory:
    """Compares looks at the topics, and finds the partitions that stand still. Pure."""

    _since: dict[Place, tuple[int, float]] = field(default_factory=dict)

    @property
    def is_anything_open(self) -> bool:
        """Whether the last look found a partition that could not be read to its end."""
        return bool(self._since)

    def note(
        self, stable: Mapping[Place, int], ends: Mapping[Place, int], now_s: float
    ) -> list[Stall]:
        """Add a look; return what stands still since an earlier one.

        Args:
            stable: by partition, up to where what is committed can be read.
            ends: by partition, where it ends.
        """
        since: dict[Place, tuple[int, float]] = {}
        for place, at in stable.items():
            if at < ends.get(place, at):
                before = self._since.get(place)
                since[place] = before if before is not None and before[0] == at else (at, now_s)
        self._since = since
        return [
            Stall(*place, at, ends[place] - at, now_s - begun_s)
            for place, (at, begun_s) in sorted(since.items())
            if now_s > begun_s
        ]


class InputWatch:
    """Finds partitions of the pipeline's input that stand still.

    Args:
        pause_s: least time between two looks; an earlier call returns what the last one found.
        read: returns up to where each partition was read, as far as that is known.
    """

    def __init__(
        self,
        settings: Settings,
        admin: AdminClient,
        clock_s: Callable[[], float] = time.monotonic,
        pause_s: float = 5.0,
        read: Callable[[], Mapping[Place, int]] = dict,
    ) -> None:
        self._settings, self._clock_s, self._pause_s = settings, clock_s, pause_s
        self._looked_s = -pause_s
        self._stalls: list[Stall] = []
        self.brokers_answer = True
        """Whether they did at the last look."""
        self._admin: Any = admin  # untyped: the stubs know little of listing offsets
        self.history = StallHistory()
        self._read, self._unread = read, UnreadHistory()
        self.unread: list[Unread] = []
        """What the last look that had an answer found unread."""

    def is_due(self) -> bool:
        """Tell whether the next call looks at the brokers."""
        return self._clock_s() - self._looked_s >= self._pause_s

    def look(self, stalled_after_s: float = STALLED_AFTER_S) -> list[Stall]:
        """Return what has stood still for that time; nothing where the brokers do not answer."""
        if self.is_due():
            self._looked_s = now_s = self._clock_s()
            self._stalls = self._look(now_s, stalled_after_s)
        return self._stalls

    def _look(self, now_s: float, stalled_after_s: float) -> list[Stall]:
        try:
            # The ends first: a record that is written in between is no open transaction.
            ends = self._offsets(IsolationLevel.READ_UNCOMMITTED)
            stable = self._offsets(IsolationLevel.READ_COMMITTED)
        except BrokerError:
            self.brokers_answer = False
            return []
        self.brokers_answer = True
        self.unread = self._unread.note(self._read(), stable, now_s)
        found = self.history.note(stable, ends, now_s)
        stalls = [one for one in found if one.stalled_s >= stalled_after_s]
        return _with_producers(self._settings, stalls) if stalls else []

    def _offsets(self, isolation: IsolationLevel) -> dict[Place, int]:
        names = self._settings.topics
        topics = names.read_with_relay if self._settings.relay else names.read
        places = places_of(self._admin, topics, TIMEOUT_S, retry_s=0)
        # If a partition just gets another leader, the brokers do not count as silent.
        return listed_offsets(self._admin, places, LATEST, isolation, TIMEOUT_S, retry_s=LEADER_S)


def _with_producers(settings: Settings, stalls: Iterable[Stall]) -> list[Stall]:
    """Name the producer that holds each partition up, where the brokers say it."""
    stalls = list(stalls)
    known = kafka_python_settings(settings.bootstrap_servers, settings.kafka)
    limits = {"bootstrap_timeout_ms": ANSWER_MS_MAX, "request_timeout_ms": ANSWER_MS_MAX}
    try:
        with closing(new_admin_client({**known, **limits})) as admin:
            return named(admin, stalls)
    except (KafkaError, OSError, ValueError):
        # Brokers before Kafka 2.8 do not say it, nor without the right to read. Newer ones may have
        # states that kafka-python does not know.
        return stalls


def named(admin: Any, stalls: list[Stall]) -> list[Stall]:
    """Return the stalls with the producer that holds each partition up."""
    places = [KafkaPythonPartition(one.topic, one.partition) for one in stalls]
    described = admin.describe_producers(places)
    holders = [
        _holder(described[place].active_producers, one.offset)
        for place, one in zip(places, stalls, strict=True)
    ]
    known = sorted({*holders} - {UNKNOWN})
    listed = admin.list_transactions(producer_id_filters=known) if known else {}
    ids = {one.producer_id: one.transactional_id for one in chain(*listed.values())}
    return [
        replace(one, producer_id=holder, transactional_id=ids.get(holder, "")[:ID_CHARACTERS_MAX])
        for one, holder in zip(stalls, holders, strict=True)
    ]


def _holder(producers: Iterable[Any], offset: int) -> int:
    """Return the producer of the first transaction that is open at or before that offset."""
    opened = [
        (one.current_transaction_start_offset, one.producer_id)
        for one in producers
        if one.current_transaction_start_offset >= 0
    ]
    return min(opened)[1] if opened and min(opened)[0] <= offset else UNKNOWN
