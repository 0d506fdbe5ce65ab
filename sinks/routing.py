"""What becomes of a half message: pure functions from a record and an action to an output.

A message is read through the few methods that confluent-kafka's Message has, so that tests need no
broker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from checkback.protocol import properties, records
from checkback.protocol.properties import Headers
from checkback.protocol.refusals import RefusedReason, refused_headers
from checkback.protocol.topics import HEADER_ROOM_BYTES, TopicNames
from checkback.sinks.real_topics import KnownTopic
from checkback.sinks.transaction import Output

RECORD_BATCH_OVERHEAD_BYTES: Final = 61
RECORD_OVERHEAD_BYTES: Final = 21
HEADER_OVERHEAD_BYTES: Final = 10
"""Upper bounds of what Kafka's message format 2 adds: per batch, per record, per header."""
BY_KEY: Final = -1
NOW: Final = 0
"""As a timestamp: let the producer set the time of sending."""

FindTopic = Callable[[str], KnownTopic | None]


class SourceRecord(Protocol):
    """A record that was read from the half or the op topic."""

    def key(self) -> bytes | None: ...  # noqa: D102
    def value(self) -> bytes | None: ...  # noqa: D102
    def headers(self) -> list[tuple[str, bytes]] | None: ...  # noqa: D102
    def timestamp(self) -> tuple[int, int]: ...  # noqa: D102


def record_bytes_max(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return how large a batch of this one record can get, uncompressed."""
    size = RECORD_BATCH_OVERHEAD_BYTES + RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    # A final keeps the null values of its half's headers.
    return size + sum(
        HEADER_OVERHEAD_BYTES + len(name.encode()) + len(content or b"")
        for name, content in headers
    )


def final_or_refused(
    half: SourceRecord,
    partition: int,
    offset: int,
    find_topic: FindTopic,
    names: TopicNames,
) -> Output:
    """Return the final message of a committed half, or the refused record where it has no place."""
    parts = records.final_parts(half.headers() or [], partition, offset)
    topic = parts.real_topic
    known = find_topic(topic)
    if known is None:
        reason = RefusedReason.REAL_TOPIC_MISSING
        return refused(half, names.half, partition, offset, reason, names, topic)
    key, value = half.key(), half.value()
    if known.needs_key and key is None:
        detail = f"{topic} is compacted and takes no record without a key"
        reason = RefusedReason.FINAL_REJECTED
        return refused(half, names.half, partition, offset, reason, names, detail)
    if may_be_too_large(known, key, value):
        size = record_bytes_max(key, value, parts.headers)
        if size > known.record_batch_bytes_max:
            detail = f"{topic} takes {known.record_batch_bytes_max} bytes, this may need {size}"
            reason = RefusedReason.FINAL_TOO_LARGE
            return refused(half, names.half, partition, offset, reason, names, detail)
    wished = parts.real_queue_id
    to = wished if wished is not None and wished < known.partitions else BY_KEY
    return Output(topic, to, key, value, parts.headers, half.timestamp()[1])


def may_be_too_large(known: KnownTopic, key: bytes | None, value: bytes | None) -> bool:
    """Tell whether a record is near enough to the topic's limit to be measured.

    Summing the headers of every record up costs as much as sending it; a record that is far from
    the limit can only pass it by headers of more than the room given here, which the broker then
    rejects by itself.
    """
    far = known.record_batch_bytes_max - HEADER_ROOM_BYTES
    return len(value or b"") + len(key or b"") > far


def check_request(
    half: SourceRecord, partition: int, offset: int, check_times: int, names: TopicNames
) -> Output:
    """Return the check request for a half, addressed to its producer group's check topic.

    It carries the time of asking, not that of the half: a client skips requests that waited longer
    than the check interval, because the next one is already on its way.
    """
    headers = half.headers() or []
    group = properties.text_value(headers, properties.PGROUP) or ""
    return Output(
        names.check(group),
        BY_KEY,
        half.key(),
        half.value(),
        records.check_headers(headers, partition, offset, check_times),
        NOW,
    )


def undelivered_check(partition: int, offset: int, check_times: int, names: TopicNames) -> Output:
    """Return the feedback to the state that a check request found no topic."""
    headers = records.undelivered_check_headers(check_times)
    return Output(names.op, partition, None, b"%d" % offset, headers, NOW)


def discarded(
    half: SourceRecord, partition: int, offset: int, check_times: int, why: str, names: TopicNames
) -> Output:
    """Return a discarded half."""
    headers = records.discarded_headers(half.headers() or [], partition, offset, check_times, why)
    timestamp_ms = half.timestamp()[1]
    return Output(names.discarded, BY_KEY, half.key(), half.value(), headers, timestamp_ms)


def refused(
    record: SourceRecord | None,
    origin_topic: str,
    partition: int,
    offset: int,
    reason: RefusedReason,
    names: TopicNames,
    detail: str = "",
) -> Output:
    """Return a refused record: bytes untouched, with reason and origin.

    A record that is gone from its topic is refused without key and value: its origin is still said.
    """
    if record is None:
        headers = refused_headers([], reason, origin_topic, partition, offset, detail)
        return Output(names.refused, BY_KEY, None, None, headers, NOW)
    original = record.headers() or []
    headers = refused_headers(original, reason, origin_topic, partition, offset, detail)
    return Output(names.refused, BY_KEY, record.key(), record.value(), headers, NOW)
