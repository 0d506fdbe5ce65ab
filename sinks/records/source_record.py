"""A record of the half or the op topic, as the sink's code sees it.

confluent-kafka raises on a header name that is no UTF-8, and hands out half a list if asked again;
librdkafka gives a record of more than 100,000 headers without any, and a batch that unpacks to more
than 100 MB not at all. One sender can cause each of these, and must not stop the others. So the
sink treats such a record as one without readable headers, and does not ask the client again.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import methodcaller
from typing import Final, Protocol

from confluent_kafka import KafkaError

from checkback.protocol.properties import Headers
from checkback.protocol.record_size import record_bytes_max
from checkback.protocol.refusals import RecordOrigin

UNREADABLE_CODES: Final = frozenset(
    {KafkaError._BAD_COMPRESSION, KafkaError._BAD_MSG, KafkaError._NOT_IMPLEMENTED}
)
"""What a consumer says of a batch of records that it can't unpack, however often it is asked."""

OP_BYTES_MAX: Final = 900_000
"""Most bytes of an op; librdkafka sends a million by default. Ops of clients have some hundred."""

_headers: Final = methodcaller("headers")
"""Calls `headers` so that CPython looks for an error. A plain call takes CPython's short cut for
methods without arguments, which returns although an error is set, and the error is raised by some
later call."""


class SourceRecord(Protocol):
    """The methods of a Kafka record that the sink calls."""

    def key(self) -> bytes | None: ...  # noqa: D102
    def value(self) -> bytes | None: ...  # noqa: D102
    def headers(self) -> Headers | None: ...  # noqa: D102
    def timestamp(self) -> tuple[int, int]: ...  # noqa: D102


class PlacedRecord(SourceRecord, Protocol):
    """A record that also says where it stands."""

    def topic(self) -> str | None: ...  # noqa: D102
    def partition(self) -> int | None: ...  # noqa: D102
    def offset(self) -> int | None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class RecordCopy:
    """What is known of a record, in place of the client's own.

    Args:
        place: where it stands.
        why_unreadable: why it has no headers, or nothing at all; empty where all can be read.
        content: key and value, None where they are not known.
        known_headers: None where they are not known.
        stored: kind and milliseconds of its time, as the client has them; the kind is 0 without.
    """

    place: RecordOrigin
    why_unreadable: str = ""
    content: tuple[bytes | None, bytes | None] = (None, None)
    known_headers: Headers | None = None
    stored: tuple[int, int] = (0, 0)

    def key(self) -> bytes | None:  # noqa: D102
        return self.content[0]

    def value(self) -> bytes | None:  # noqa: D102
        return self.content[1]

    def headers(self) -> Headers | None:  # noqa: D102
        return self.known_headers

    def timestamp(self) -> tuple[int, int]:  # noqa: D102
        return self.stored

    def topic(self) -> str:  # noqa: D102
        return self.place.topic

    def partition(self) -> int:  # noqa: D102
        return self.place.partition

    def offset(self) -> int:  # noqa: D102
        return self.place.offset


def readable(message: PlacedRecord) -> PlacedRecord:
    """Return the record, or a substitute without headers where its headers can't be read."""
    try:
        _headers(message)
    except Exception as error:
        cause = error.__cause__ or error
        return without_headers(message, f"{type(cause).__name__}: {cause}")
    return message


def without_headers(message: PlacedRecord, why: str) -> RecordCopy:
    """Return a substitute for a record with headers that can't be read."""
    content = message.key(), message.value()
    return RecordCopy(_place_of(message), why, content, stored=message.timestamp())


def _place_of(message: PlacedRecord) -> RecordOrigin:
    return RecordOrigin(message.topic() or "", message.partition() or 0, message.offset() or 0)


def readable_op(message: PlacedRecord, bytes_max: int = OP_BYTES_MAX) -> tuple[PlacedRecord, int]:
    """Return the op as `readable` does, and its bytes; one that is too large without anything.

    A batch unpacks to more than its topic takes where the topic keeps its producers' compression.
    So an op can be there that can be written to no other topic.
    """
    record = readable(message)
    size = record_bytes_max(record.key(), record.value(), record.headers() or ())
    if size <= min(bytes_max, OP_BYTES_MAX):
        return record, size
    return RecordCopy(_place_of(message), f"it has {size:,} bytes"), 0


def readable_headers(message: PlacedRecord) -> Headers:
    """Return the record's headers; none where they can't be read, or where it has none."""
    return readable(message).headers() or []


def is_unreadable(record: SourceRecord) -> bool:
    """Return whether the record has headers, or more, that can't be read."""
    return isinstance(record, RecordCopy) and bool(record.why_unreadable)


def why_unreadable(record: SourceRecord) -> str:
    """Return why a record without headers has none."""
    why = record.why_unreadable if isinstance(record, RecordCopy) else ""
    return why or "it has none, or more than the client reads"
