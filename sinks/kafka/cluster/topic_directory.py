"""What the sink knows of real topics: whether they exist, their partitions and limits.

A task looks topics up while it writes. What it does with the answers becomes visible only when its
transaction commits, so a second try that sees other topics can't contradict the first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka.cluster.transient_errors import (
    is_transient,
    listed_topics,
    renew_metadata,
)

TIMEOUT_S: Final = 30.0
SETTINGS_TIMEOUT_S: Final = 10.0
SETTINGS_WAIT_S: Final = 30.0
"""How long a task asks for topics that it knows nothing of. librdkafka asks the controller that it
has cached; if that broker has just died, a try fails at once, or at its timeout."""
SETTINGS_PAUSE_S: Final = 1.0
LASTING_ERRORS: Final = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)
"""Answers that stay the same, however often the sink asks for a topic's settings."""
BROKER_DEFAULT_BYTES_MAX: Final = 1_048_588
KEPT_S: Final = 30.0
"""How long an answer is used without asking again: a new partition may be named at once."""
TRANSACTION_END_AGE_MAX_MS: Final = 10_000
"""A broker stamps the end of a transaction with its own time, and then checks that time against the
topic's bound of age. If it rejects the end, the transactional id is blocked until the broker
restarts."""
TRANSACTION_END_BYTES: Final = 78
"""Size of a transaction's end on a topic, as a batch of one record (Kafka 4.2)."""
UNBOUNDED: Final = 2**62
"""A bound of bytes or milliseconds that is this large is no bound."""
SHORTAGE_WAIT_S: Final = 10.0
"""How long a task waits for topics that have just become short of replicas: brokers elect a leader,
and restarted ones catch up, in seconds. Longer, and one topic would hold up all others."""
SHORTAGE_POLL_S: Final = 0.5
NEW_WAIT_S: Final = 1.0
"""How long a task looks for a topic that does not seem to exist, at most once in KEPT_S: the broker
that was asked may learn of a new topic later than the broker that created it."""
NEW_POLL_S: Final = 0.1
LIBRDKAFKA_BATCH_BYTES: Final = 1_000_000
"""librdkafka's batch.size: a topic that takes less needs its batches cut by flushing."""


def batch_size(topic_bytes_max: int) -> int:
    """Return the batch.size of a producer that writes to a topic which takes that many bytes.

    A larger batch would be refused as a whole, at each try. What librdkafka adds has room.
    """
    return min(LIBRDKAFKA_BATCH_BYTES, topic_bytes_max - 1_024)


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """A topic that exists.

    Args:
        record_batch_bytes_max: its max.message.bytes; it bounds a record batch, not one record.
        needs_key: whether the topic is compacted, and takes no record without a key.
        before_max_ms: how old a record may be, None for any age.
        batch_cut_bytes: batches of several records are to be smaller than that; None where
            record_batch_bytes_max is all that is known.
        is_system: whether the topic belongs to this Checkback or another one; no final may go
            there.
        transaction_end_bounds: settings of the topic by which brokers may reject the end of a
            transaction, so that its producer hangs; empty where there are none.
        shortage: which replicas are missing; without them a partition takes neither records nor the
            end of a transaction. Empty where none is missing.
    """

    partitions: int
    record_batch_bytes_max: int
    needs_key: bool = False
    before_max_ms: int | None = None
    batch_cut_bytes: int | None = None
    is_system: bool = False
    transaction_end_bounds: tuple[str, ...] = ()
    shortage: str = ""


@dataclass(slots=True)
class TopicDirectory:
    """Topics of a cluster, remembered for half a minute."""

    admin: AdminClient
    clock_s: Callable[[], float] = lambda: time.monotonic()
    pause: Callable[[float], None] = lambda seconds: time.sleep(seconds)
    shortage_wait_s: float = SHORTAGE_WAIT_S
    answer_s: float = TIMEOUT_S
    """How long a look waits for the brokers."""
    _partitions: dict[str, Mapping[int, Any]] = field(default_factory=dict)
    _known: dict[str, KnownTopic] = field(default_factory=dict)
    _taught: dict[str, KnownTopic] = field(default_factory=dict)
    _settings: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _is_fresh: bool = False
    _listed_s: float = 0.0
    _is_aged: bool = False
    _short_since_s: dict[str, float] = field(default_factory=dict)
    _waited_s: float = 0.0
    _sought_s: float | None = None

    @property
    def _settings_s(self) -> float:
        return min(SETTINGS_TIMEOUT_S, self.answer_s)

    def allow_refresh(self) -> None:
        """Allow one new look at the cluster: call it once per task."""
        self._is_fresh = False
        self._waited_s = 0.0
        self._is_aged = bool(self._known) and self.clock_s() - self._listed_s >= KEPT_S

    def forget_all(self) -> None:
        """Forget everything, because a broker has just contradicted it."""
        self._known.clear()
        self._partitions.clear()
        self._is_fresh = False

    def learn_limit(
        self, topic: str, *, bytes_max: int | None = None, cut_bytes: int | None = None
    ) -> None:
        """Note limits from a rejection: no larger record, no larger batch of several records."""
        old = self._taught.get(topic) or KnownTopic(0, UNBOUNDED)
        self._taught[topic] = replace(
            old,
            record_batch_bytes_max=min(old.record_batch_bytes_max, bytes_max or UNBOUNDED),
            batch_cut_bytes=_least(old.batch_cut_bytes, cut_bytes),
        )
        self._known.pop(topic, None)

    def find(self, topic: str) -> KnownTopic | None:
        """Return what is known of a topic, None where it does not exist.

        All topics are listed at once: asking for one by name makes some brokers create it.

        Raises:
            BrokerError: the topics can't be listed, or the settings of one were never read.
        """
        if self._is_aged:
            self._renew()
        known = self._known.get(topic) or self._found(topic)
        while known is not None and known.shortage and self._may_wait_for(topic):
            self.pause(SHORTAGE_POLL_S)
            self._waited_s += SHORTAGE_POLL_S
            self._renew()
            known = self._known.get(topic)
        return known

    def find_new(self, topic: str) -> KnownTopic | None:
        """Return what is known of a topic that may have been created a moment ago."""
        now_s = self.clock_s()
        if self._sought_s is None or now_s - self._sought_s >= KEPT_S:
            self._sought_s = now_s
            while topic not in self._partitions and self.clock_s() - now_s < NEW_WAIT_S:
                self.pause(NEW_POLL_S)
                self._list()
        return self.find(topic)

    def find_all(self) -> dict[str, KnownTopic]:
        """Return what is known of every topic, by name.

        Raises:
            BrokerError: the topics can't be listed, or the settings of one were never read.
        """
        self._list()
        self._look_at(sorted(self._partitions))
        return dict(sorted(self._known.items()))

    def _found(self, topic: str) -> KnownTopic | None:
        if topic not in self._partitions and not self._is_fresh:
            self._list()
        if topic not in self._partitions:
            return None
        self._look_at([topic])
        return self._known[topic]

    def _may_wait_for(self, topic: str) -> bool:
        """Return whether a topic has lacked replicas only for a moment, so they may come back."""
        short_s = self.clock_s() - self._short_since_s[topic]
        return max(short_s, self._waited_s) < self.shortage_wait_s

    def _renew(self) -> None:
        """Look at everything again; if the brokers do not answer, keep what is known."""
        self._is_aged = False
        with suppress(BrokerError):
            self._list()
            self._taught.clear()
            self._known = {
                topic: known for topic, known in self._known.items() if topic in self._partitions
            }
            self._look_at(list(self._known))

    def _list(self) -> None:
        found = listed_topics(self.admin, self.answer_s, retry_s=0)
        self._partitions = {
            name: topic.partitions for name, topic in found.items() if topic.error is None
        }
        self._is_fresh = True
        self._listed_s = self.clock_s()

    def _look_at(self, topics: Sequence[str]) -> None:
        self._read_settings(topics)
        for topic in topics:
            known = _known_topic(self._partitions[topic], self._settings[topic])
            self._known[topic] = _lowered(known, self._taught.get(topic))
            if known.shortage:
                self._short_since_s.setdefault(topic, self.clock_s())
            else:
                self._short_since_s.pop(topic, None)

    def _read_settings(self, topics: Sequence[str]) -> None:
        """Read the settings of topics; where no broker answers, the last ones hold."""
        until_s = self.clock_s() + min(SETTINGS_WAIT_S, self.answer_s)
        self._ask_for_settings(topics)
        while unknown := [topic for topic in topics if topic not in self._settings]:
            if self.clock_s() >= until_s:
                raise BrokerError(
                    f"The settings of {unknown[0]} can't be read: no broker answered.",
                    remedy="Check that all brokers are up.",
                    topic=unknown[0],
                )
            self.pause(SETTINGS_PAUSE_S)
            renew_metadata(self.admin, self._settings_s)
            self._ask_for_settings(unknown)

    def _ask_for_settings(self, topics: Sequence[str]) -> None:
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        if not resources:
            return
        asked = self.admin.describe_configs(resources, request_timeout=self._settings_s)
        for resource, future in asked.items():
            try:
                found = future.result(self.answer_s)
                settings = {name: str(entry.value or "") for name, entry in found.items()}
            except (KafkaException, TimeoutError) as error:
                if not is_transient(error, LASTING_ERRORS):
                    continue
                settings = {}  # assume the defaults; a broker that disagrees says so later
            self._settings[resource.name] = settings


def _known_topic(partitions: Mapping[int, Any], settings: Mapping[str, str]) -> KnownTopic:
    bytes_max = int(settings.get("max.message.bytes") or BROKER_DEFAULT_BYTES_MAX)
    needs_key = "compact" in settings.get("cleanup.policy", "")
    before_max_ms = int(settings.get("message.timestamp.before.max.ms") or UNBOUNDED)
    is_timed_by_sender = settings.get("message.timestamp.type") != "LogAppendTime"
    is_bounded = is_timed_by_sender and before_max_ms < UNBOUNDED
    bound_ms = before_max_ms if is_bounded else None
    small = {
        "message.timestamp.before.max.ms": bound_ms is not None
        and bound_ms < TRANSACTION_END_AGE_MAX_MS,
        "max.message.bytes": bytes_max < TRANSACTION_END_BYTES,
    }
    shortage = _shortage(partitions, int(settings.get("min.insync.replicas") or 1))
    return KnownTopic(
        len(partitions),
        bytes_max,
        needs_key,
        bound_ms,
        transaction_end_bounds=tuple(name for name, is_small in small.items() if is_small),
        shortage=shortage,
    )


def _shortage(partitions: Mapping[int, Any], in_sync_least: int) -> str:
    for number, one in sorted(partitions.items()):
        if one.leader < 0:
            return f"partition {number} has no leader"
        least = min(in_sync_least, len(one.replicas))  # brokers ask for no more than there are
        if len(one.isrs) < least:
            in_sync = f"{len(one.isrs)} of the {least} replicas in sync that it needs"
            return f"partition {number} has {in_sync} (min.insync.replicas)"
    return ""


def _lowered(known: KnownTopic, taught: KnownTopic | None) -> KnownTopic:
    if taught is None:
        return known
    least = min(known.record_batch_bytes_max, taught.record_batch_bytes_max)
    return replace(known, record_batch_bytes_max=least, batch_cut_bytes=taught.batch_cut_bytes)


def _least(one: int | None, other: int | None) -> int | None:
    return min((number for number in (one, other) if number is not None), default=None)
