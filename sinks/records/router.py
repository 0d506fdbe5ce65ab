"""Turns a half message and an action into a final, a check or a refused record; pure.

A record that has no place to go comes back as a refusal; the caller knows what that means for the
action.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from checkback.protocol import properties, records
from checkback.protocol.record_size import HEADERS_MAX, record_bytes_max
from checkback.protocol.refusals import RecordOrigin, RecordParts, RefusedReason, refused_parts
from checkback.protocol.topics import HEADER_ROOM_BYTES, TopicNames
from checkback.sinks.kafka.cluster.topic_directory import KnownTopic
from checkback.sinks.records.sink_record import BY_KEY, NOW, SinkRecord
from checkback.sinks.records.source_record import (
    SourceRecord,
    is_unreadable,
    why_unreadable,
)

FindTopic = Callable[[str], KnownTopic | None]


class Refusal(NamedTuple):
    """The reason for which a record is not written to its topic, and a detail."""

    reason: RefusedReason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Router:
    """Makes outputs, for one try of one batch.

    Args:
        find_topic: what is known of a topic that is written to; None where it does not exist.
        check_interval_ms: the pipeline's, stated in check requests; None leaves it out.
        check_max: the pipeline's. The last request states no interval, because it has no successor:
            producers skip one that is older than its interval.
        measures_all: whether every record is measured; otherwise those near their topic's limit.
    """

    names: TopicNames
    find_topic: FindTopic
    now_ms: int = 0
    check_interval_ms: int | None = None
    check_max: int = 0
    measures_all: bool = False

    def final(self, half: SourceRecord, origin: RecordOrigin) -> SinkRecord | Refusal:
        """Return the final message of a committed half."""
        headers = half.headers()
        if headers is None:
            return Refusal(RefusedReason.HALF_UNREADABLE, why_unreadable(half))
        parts = records.final_parts(headers, origin.partition, origin.offset)
        topic = parts.real_topic
        known = self.find_topic(topic)
        if known is None or known.is_system:
            is_system = self.names.is_system(topic)
            reasons = (RefusedReason.REAL_TOPIC_MISSING, RefusedReason.HALF_FOR_SYSTEM_TOPIC)
            return Refusal(reasons[is_system], topic)
        timestamp_ms = half.timestamp()[1]
        if known.before_max_ms is not None and self._is_too_old(known, timestamp_ms):
            detail = f"{topic} takes no record older than {known.before_max_ms} ms"
            return Refusal(RefusedReason.FINAL_REJECTED, detail)
        wished = parts.partition_among(known.partitions)
        to = BY_KEY if wished is None else wished
        key, value = half.key(), half.value()
        output = SinkRecord(topic, to, key, value, parts.headers, timestamp_ms, origin)
        return self._objection(output, known) or output

    def check_request(
        self, half: SourceRecord, origin: RecordOrigin, check_times: int
    ) -> SinkRecord | Refusal:
        """Return the check request for a half, addressed to its producer group's check topic.

        It carries the time of asking, not that of the half: a client skips requests that waited
        longer than the check interval, because the next one is already on its way.
        """
        headers = half.headers()
        if headers is None:
            return Refusal(RefusedReason.HALF_UNREADABLE, why_unreadable(half))
        topic = self.names.check(group_of(half))
        known = self.find_topic(topic)
        if known is None:
            return Refusal(RefusedReason.REAL_TOPIC_MISSING, topic)
        interval_ms = self.check_interval_ms if check_times < self.check_max else None
        asked = records.check_headers(
            headers, origin.partition, origin.offset, check_times, interval_ms
        )
        output = SinkRecord(topic, BY_KEY, half.key(), half.value(), asked, NOW, origin)
        return self._objection(output, known) or output

    def undelivered_check(self, origin: RecordOrigin, check_times: int) -> SinkRecord:
        """Return the feedback to the state that a check request was not written."""
        headers = records.undelivered_check_headers(check_times)
        offset = b"%d" % origin.offset
        return SinkRecord(self.names.feedback, origin.partition, None, offset, headers, NOW, origin)

    def discarded(
        self, half: SourceRecord, origin: RecordOrigin, check_times: int, why: str
    ) -> SinkRecord | Refusal:
        """Return a discarded half."""
        headers = half.headers()
        if headers is None:
            return Refusal(RefusedReason.HALF_UNREADABLE, why_unreadable(half))
        topic, known = self.names.discarded, self.find_topic(self.names.discarded)
        kept = records.discarded_headers(headers, origin.partition, origin.offset, check_times, why)
        timestamp_ms = half.timestamp()[1]
        if known is not None and self._is_too_old(known, timestamp_ms):
            timestamp_ms = NOW
        output = SinkRecord(topic, BY_KEY, half.key(), half.value(), kept, timestamp_ms, origin)
        objection = None if known is None else self._objection(output, known)
        if objection is not None:
            return Refusal(RefusedReason.DISCARD_REJECTED, objection.detail)
        return output

    def refused(
        self,
        record: SourceRecord | None,
        origin: RecordOrigin,
        refusal: Refusal,
        *,
        without_content: bool = False,
    ) -> SinkRecord:
        """Return a refused record: bytes untouched if they fit, with reason and origin.

        A record that is gone from its topic is refused by its origin, without key and value.
        """
        topic, known = self.names.refused, self.find_topic(self.names.refused)
        bytes_max = None if known is None else known.record_batch_bytes_max
        given = RecordParts(None, None, ())
        if record is not None:
            given = RecordParts(record.key(), record.value(), record.headers())
            is_unread = is_unreadable(record) or refusal.reason == RefusedReason.HALF_UNREADABLE
            if given.headers is None and not is_unread:
                given = given._replace(headers=())
        limit = 0 if without_content else bytes_max
        made = refused_parts(given, refusal.reason, origin, refusal.detail, limit)
        return SinkRecord(topic, BY_KEY, made.key, made.value, made.headers, NOW, origin)

    def _is_too_old(self, known: KnownTopic, timestamp_ms: int) -> bool:
        oldest_ms = self.now_ms - (known.before_max_ms or 0)
        return known.before_max_ms is not None and timestamp_ms < oldest_ms

    def _objection(self, output: SinkRecord, known: KnownTopic) -> Refusal | None:
        """Return why a topic would not take a record, None if no reason is known."""
        topic = output.topic
        if known.shortage:
            detail = f"{topic}: {known.shortage}"
            return Refusal(RefusedReason.REAL_TOPIC_UNAVAILABLE, detail)
        if known.transaction_end_bounds:
            detail = f"{known.transaction_end_bounds[0]} of {topic} keeps transactions from ending"
            return Refusal(RefusedReason.FINAL_REJECTED, detail)
        if known.needs_key and output.key is None:
            detail = f"{topic} is compacted and takes no record without a key"
            return Refusal(RefusedReason.FINAL_REJECTED, detail)
        if self.measures_all or may_be_too_large(known, output.key, output.value):
            size = record_bytes_max(output.key, output.value, output.headers)
            if size > known.record_batch_bytes_max:
                detail = f"{topic} takes {known.record_batch_bytes_max} bytes, this may need {size}"
                return Refusal(RefusedReason.FINAL_TOO_LARGE, detail)
        if len(output.headers) > HEADERS_MAX:
            detail = f"{len(output.headers)} headers are more than every client reads"
            return Refusal(RefusedReason.FINAL_TOO_LARGE, detail)
        return None


def as_target(topic: str, known: KnownTopic, names: TopicNames, bytes_max: int) -> KnownTopic:
    """Return what is known of a topic, narrowed to what this Checkback may write to it."""
    least = min(known.record_batch_bytes_max, bytes_max)
    return replace(known, record_batch_bytes_max=least, is_system=names.is_system(topic))


def group_of(half: SourceRecord) -> str:
    """Return the producer group of a half, empty where it does not say."""
    return properties.text_value(half.headers() or [], properties.PGROUP) or ""


def may_be_too_large(known: KnownTopic, key: bytes | None, value: bytes | None) -> bool:
    """Return whether a record is near enough to the topic's limit to be measured.

    Summing the headers of every record up costs as much as sending it; a record that is far from
    the limit can only pass it by headers of more than the room given here, which the broker then
    rejects by itself.
    """
    far = known.record_batch_bytes_max - HEADER_ROOM_BYTES
    return len(value or b"") + len(key or b"") > far
