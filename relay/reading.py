"""Reads halves and ops as the job's decoder reads them: a literal twin of RecordDecoder.java.

A relay delivers only what the decoder and verification would accept (rule 3). Headers in the
protocol's order are read by position; otherwise the first header of each name counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from checkback.protocol import properties as names
from checkback.protocol.properties import HALF_PROTOCOL_ORDER, OP_PROTOCOL_ORDER, named_offset
from checkback.protocol.refusals import GROUP_BYTES_MAX, ID_BYTES_MAX, TOPIC_LENGTH_MAX
from checkback.protocol.topics import TopicNames
from checkback.relay.record_verifier import RawHeaders, RecordVerifier
from checkback.sinks.records.source_record import SourceRecord

Identity = tuple[bytes, bytes]
"""Producer group and transaction id."""
_ODD: Final = ("\0", "\ufffd")


class ParsedOp(NamedTuple):
    """An op, parsed; most ops of a backlog are passed without a further look.

    Args:
        named: the offset of the half, None where it is not readable.
        state: 8, 12 or 0; None for anything else.
        identity: group and transaction id, as far as they are there.
        from_check: FROM_TRANSACTION_CHECK.
    """

    named: int | None
    state: int | None
    identity: Identity
    from_check: bytes


_STATES: Final = {
    b"%d" % state: state
    for state in names.OP_STATES
    if state != names.TRANSACTION_DELIVERED
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RecordRules:
    """The rules by which records are accepted, the same as the decoder's.

    Args:
        body_bytes_max: the largest body of a half.
        verifier: the rules of access control; None without them.
    """

    topics: TopicNames
    body_bytes_max: int
    verifier: RecordVerifier | None = None

    def half(self, record: SourceRecord) -> Identity | None:
        """Return group and id of a half that is accepted, None for any other record."""
        headers = record.headers() or []
        found, values = _protocol_values(headers, HALF_PROTOCOL_ORDER)
        is_half, group, transaction_id, topic, _ = values
        body = record.value()
        if (
            is_half != b"true"
            or not group
            or not transaction_id
            or not topic
            or len(topic) > TOPIC_LENGTH_MAX
            or len(group) > GROUP_BYTES_MAX
            or len(transaction_id) > ID_BYTES_MAX
            or (body is not None and not 0 < len(body) <= self.body_bytes_max)
            or self.topics.is_system(topic.decode("utf-8", "surrogateescape"))
            or _has_odd_name(found)
            or names.TRANSACTION_CHECK_TIMES in found
        ):
            return None
        if self.verifier is not None and not self.verifier.accepts_half(record, headers):
            return None
        return group, transaction_id

    def accepts_op(self, record: SourceRecord, op: ParsedOp, partition: int) -> bool:
        """Tell whether decoder and verification accept an op."""
        headers = record.headers() or []
        found, (tag, *_) = _protocol_values(headers, OP_PROTOCOL_ORDER)
        is_op = (
            tag == b"d"
            and op.named is not None
            and op.state is not None
            and all(op.identity)
            and not _has_odd_name(found)
        )
        if not is_op or self.verifier is None:
            return is_op
        return self.verifier.accepts_op(record, headers, partition)


def parsed_op(record: SourceRecord) -> ParsedOp:
    """Parse an op, whether it is accepted or not."""
    _, values = _protocol_values(record.headers() or [], OP_PROTOCOL_ORDER)
    _, state, group, transaction_id, from_check = values
    identity = group or b"", transaction_id or b""
    verdict = _STATES.get(state or b"")
    return ParsedOp(named_offset(record.value()), verdict, identity, from_check or b"")


def _protocol_values(
    headers: RawHeaders, order: tuple[str, ...]
) -> tuple[Sequence[str], Sequence[bytes | None]]:
    """Return the headers' names, and the values of the protocol's headers in its order."""
    found, values = zip(*headers, strict=True) if headers else ((), ())
    if found[: len(order)] == order:
        return found, values[: len(order)]
    first = dict(reversed(headers))
    return found, [first.get(name) for name in order]


def _has_odd_name(found: Sequence[str]) -> bool:
    text = "".join(found)
    return any(odd in text for odd in _ODD)
