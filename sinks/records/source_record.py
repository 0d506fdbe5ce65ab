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
class UnreadableHeaders:
    """A record with unreadable headers."""

    message: PlacedRecord
    why: str

    def key(self) -> bytes | None:
        """Return the record's."""
        return self.message.key()

    def value(self) -> bytes | None:
        """Return the record's."""
        return self.message.value()

    def headers(self) -> Headers | None:
        """Return None: they are not known."""
        return None

    def timestamp(self) -> tuple[int, int]:
        """Return the record's."""
        return self.message.timestamp()

    def topic(self) -> str | None:
        """Return the record's."""
        return self.message.topic()

    def partition(self) -> int | None:
        """Return the record's."""
        return self.message.partition()

    def offset(self) -> int | None:
        """Return the record's."""
        return self.message.offset()


@dataclass(frozen=True, slots=True)
class UnreadableRecord:
    """A record that exists and that the client can't read."""

    place: RecordOrigin
    why: str

    def key(self) -> bytes | None:
        """Return None: it is not known."""
        return None

    def value(self) -> bytes | None:
        """Return None: it is not known."""
        return None

    def headers(self) -> Headers | None:
        """Return None: they are not known."""
        return None

    def timestamp(self) -> tuple[int, int]:
        """Return no time, as for a record that has none."""
        return 0, 0

    def topic(self) -> str | None:
        """Return where it stands."""
        return self.place.topic

    def partition(self) -> int | None:
        """Return where it stands."""
        return self.place.partition

    def offset(self) -> int | None:
        """Return where it stands."""
        return self.place.offset


def readable(message: PlacedRecord) -> PlacedRecord:
    """Return the record, or a substitute without headers where its headers can't be read."""
    try:
        _headers(message)
    except Exception as error:
        cause = error.__cause__ or error
        return UnreadableHeaders(message, f"{type(cause).__name__}: {cause}")
    return message


def content_bytes(record: SourceRecord) -> int:
    """Return how large key, value and headers are."""
    size = len(record.value() or b"") + len(record.key() or b"")
    return size + sum(len(name) + len(value or b"") for name, value in record.headers() or ())


def readable_op(message: PlacedRecord, bytes_max: int = OP_BYTES_MAX) -> PlacedRecord:
    """Return the op as `readable` does, or a substitute without anything where it is too large.

    A batch unpacks to more than its topic takes where the topic keeps its producers' compression.
    So an op can be there that can be written to no other topic.
    """
    record = readable(message)
    size = content_bytes(record)
    if size <= min(bytes_max, OP_BYTES_MAX):
        return record
    topic, at = message.topic() or "", (message.partition() or 0, message.offset() or 0)
    return UnreadableRecord(RecordOrigin(topic, *at), f"it has {size:,} bytes")


def readable_headers(message: PlacedRecord) -> Headers:
    """Return the record's headers; none where they can't be read, or where it has none."""
    return readable(message).headers() or []


def is_unreadable(record: SourceRecord) -> bool:
    """Return whether the record has headers, or more, that can't be read."""
    return isinstance(record, UnreadableHeaders | UnreadableRecord)


def why_unreadable(record: SourceRecord) -> str:
    """Return why a record without headers has none."""
    if isinstance(record, UnreadableHeaders | UnreadableRecord):
        return record.why
    return "it has none, or more than the client reads"
