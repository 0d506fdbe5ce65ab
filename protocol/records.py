"""The records on each topic: how they are written, and what is read out of them.

A record's identity is (half partition, half offset); the transaction id is only checked against it.
Bodies and keys pass through byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Final, NamedTuple

from checkback.protocol import properties as names
from checkback.protocol.properties import ActionNames, Headers

RawHeaders = Iterable[tuple[str, bytes | None]]

DISCARDED_CHECK_LIMIT: Final = "check limit"
DISCARDED_EXPIRED: Final = "expired"
STATUS_KEY: Final = b"status"
_REMOVE: Final = names.OP_TAG_REMOVE.encode()


class Op(NamedTuple):
    """An end-transaction record, as a client sends it.

    Args:
        transaction_id: UNIQ_KEY of the half.
        state: 8 commit, 12 rollback, 0 unknown (RocketMQ's MessageSysFlag), 9 delivered.
        from_transaction_check: whether it answers a check request.
        remark: what went wrong in the listener, empty when nothing did.
        operator: the person behind a manual verdict, empty for a producer's own.
    """

    half_partition: int
    half_offset: int
    producer_group: str
    transaction_id: str
    state: int
    from_transaction_check: bool = False
    remark: str = ""
    operator: str = ""

    def key(self) -> bytes:
        """Return the record's key: the transaction id."""
        return self.transaction_id.encode()

    def value(self) -> bytes:
        """Return the record's value: the half's offset in decimal."""
        return b"%d" % self.half_offset

    def headers(self) -> Headers:
        """Return the record's headers in protocol order."""
        headers = [
            (names.TAGS, _REMOVE),
            (names.COMMIT_OR_ROLLBACK, b"%d" % self.state),
            (names.PGROUP, self.producer_group.encode()),
            (names.UNIQ_KEY, self.transaction_id.encode()),
            (names.FROM_TRANSACTION_CHECK, b"true" if self.from_transaction_check else b"false"),
        ]
        if self.remark:
            headers.append((names.REMARK, self.remark.encode("utf-8", "replace")))
        if self.operator:
            headers.append((names.MANUAL_OPERATOR, self.operator.encode()))
        return headers


def half_headers(
    *,
    producer_group: str,
    transaction_id: str,
    real_topic: str,
    properties: Mapping[str, str | bytes],
    real_queue_id: int | None = None,
) -> Headers:
    """Return the headers of a half message in protocol order.

    Args:
        properties: the user's, with KEYS, TAGS and the immunity time if they are set.
        real_queue_id: partition of the real topic, None lets the key decide.
    """
    immunity = properties.get(names.CHECK_IMMUNITY_TIME_IN_SECONDS, "")
    headers = [
        (names.TRAN_MSG, b"true"),
        (names.PGROUP, producer_group.encode()),
        (names.UNIQ_KEY, transaction_id.encode()),
        (names.REAL_TOPIC, real_topic.encode()),
        (names.CHECK_IMMUNITY_TIME_IN_SECONDS, names.header_value(immunity)),
    ]
    if real_queue_id is not None:
        headers.append((names.REAL_QID, b"%d" % real_queue_id))
    headers.extend(
        (name, names.header_value(value))
        for name, value in properties.items()
        if name != names.CHECK_IMMUNITY_TIME_IN_SECONDS
    )
    return headers


@dataclass(slots=True)
class FinalParts:
    """What a committed half says of its final message.

    Args:
        real_topic: where it goes, empty if the half does not say.
        real_queue_id: the wished partition, None for none or for one that is no number.
        headers: what the consumer of the real topic sees.
    """

    real_topic: str
    real_queue_id: int | None
    headers: Headers

    def partition_among(self, partitions: int) -> int | None:
        """Return the partition it goes to, None where its key decides."""
        wished = self.real_queue_id
        return wished if wished is not None and wished < partitions else None


def final_parts(half: Headers, half_partition: int, half_offset: int) -> FinalParts:
    """Take a half's headers apart, in one pass: it is done for every message that is committed."""
    off = names.NOT_ON_FINAL
    real_topic, real_queue_id = "", None
    kept: Headers = []
    for header in half:
        name = header[0]
        if name not in off:
            kept.append(header)
        elif name == names.REAL_TOPIC:
            real_topic = real_topic or (header[1] or b"").decode("utf-8", "replace")
        elif name == names.REAL_QID:
            value = header[1] or b""
            real_queue_id = _queue_id(value) if value.isdigit() else real_queue_id
    kept.append((names.TRAN_PREPARED_QUEUE_OFFSET, b"%d" % half_offset))
    kept.append((names.TRAN_HALF_QUEUE_ID, b"%d" % half_partition))
    return FinalParts(real_topic, real_queue_id, kept)


_QUEUE_ID_DIGITS_MAX: Final = 11


def _queue_id(digits: bytes) -> int:
    """Return a partition's number; of a very long one only that it is larger than any there is."""
    return int(digits.lstrip(b"0")[:_QUEUE_ID_DIGITS_MAX] or b"0")


_BOOKKEEPING: Final = frozenset(
    {
        names.TRANSACTION_CHECK_TIMES, names.TRANSACTION_CHECK_INTERVAL_MS,
        names.TRAN_PREPARED_QUEUE_OFFSET, names.TRAN_HALF_QUEUE_ID, names.DISCARDED_REASON,
        names.RESUME.target,
    }
)  # fmt: skip
"""What only the pipeline and operators' commands say, on what they make of a half. On the half
itself a stranger wrote it: a discarded record that brought a target along would pass for a note."""
_NOT_ASKED: Final = _BOOKKEEPING | {names.SIGNATURE}
"""A reader of check requests could write the half once more, with its signature."""


def check_headers(
    half: RawHeaders,
    half_partition: int,
    half_offset: int,
    check_times: int,
    check_interval_ms: int | None = None,
) -> Headers:
    """Return the headers of a check request: the half's, its position, and the request's number.

    It lacks the half's signature, with which a reader could write the half again. A
    TRANSACTION_CHECK_TIMES set by the user is not believed (RocketMQ believes it).
    """
    headers = [(name, value or b"") for name, value in half if name not in _NOT_ASKED]
    headers.append((names.TRANSACTION_CHECK_TIMES, b"%d" % check_times))
    if check_interval_ms is not None:
        headers.append((names.TRANSACTION_CHECK_INTERVAL_MS, b"%d" % check_interval_ms))
    headers.append((names.TRAN_PREPARED_QUEUE_OFFSET, b"%d" % half_offset))
    headers.append((names.TRAN_HALF_QUEUE_ID, b"%d" % half_partition))
    return headers


def discarded_headers(
    half: RawHeaders, half_partition: int, half_offset: int, check_times: int, why: str
) -> Headers:
    """Return the headers of a discarded half: a check request's, and the reason of the discard."""
    headers = check_headers(half, half_partition, half_offset, check_times)
    headers.append((names.DISCARDED_REASON, why.encode()))
    return headers


_NOT_RESUMED: Final = (
    _NOT_ASKED
    | names.RESUME_HEADERS
    | frozenset(
        {
            *names.HALF_PROTOCOL_ORDER,
            names.BORN_HOST,
            names.DIRECT_ID,
        }
    )
)


@dataclass(frozen=True, slots=True)
class OperatorFacts:
    """Who acts on a record, why and when; the record that comes of it and the note keep this."""

    operator: str
    reason: str
    now_ms: int


def resumed_half_headers(discarded: RawHeaders, source: str, facts: OperatorFacts) -> Headers:
    """Return the headers of a half that begins again with what a discarded record holds.

    In protocol order, without position and count: the count begins at zero with the new half.
    """
    found = [(name, value or b"") for name, value in discarded]
    headers = [(name, names.first_value(found, name) or b"") for name in names.HALF_PROTOCOL_ORDER]
    headers += [(name, value) for name, value in found if name not in _NOT_RESUMED]
    return headers + action_headers(names.RESUME, source, facts)


def action_headers(action: ActionNames, source: str, facts: OperatorFacts) -> Headers:
    """Return the headers by which a half or a final names the operator's action that made it."""
    return [
        (action.source, source.encode()),
        (action.operator, facts.operator.encode()),
        (action.reason, facts.reason.encode()),
        (action.time, b"%d" % facts.now_ms),
    ]


def note_headers(
    record: RawHeaders, action: ActionNames, source: str, target: str, facts: OperatorFacts
) -> Headers:
    """Return the headers of the note that an operator acted on a record of the note's topic."""
    found = [(name, value or b"") for name, value in record]
    headers = [
        (name, names.first_value(found, name) or b"") for name in (names.PGROUP, names.UNIQ_KEY)
    ]
    return [*headers, *action_headers(action, source, facts), (action.target, target.encode())]


def undelivered_check_headers(check_times: int) -> Headers:
    """Return the headers of the sink's feedback that a check request had no topic to go to.

    The record's value is the half's offset, as an op's is. The count tells the state which check
    it was, so that a feedback read twice gives back one check only.
    """
    return [
        (names.TAGS, names.OP_TAG_UNDELIVERED.encode()),
        (names.TRANSACTION_CHECK_TIMES, b"%d" % check_times),
    ]


def tick_headers() -> Headers:
    """Return the headers of a tick."""
    return [(names.TAGS, names.OP_TAG_TICK.encode())]


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """What the pipeline tells its clients at each start, on the compacted status topic.

    The last record counts.

    Args:
        reject_transactions: whether new halves are refused.
        check_interval_ms: time between two check requests for the same half.
        time_ms: when the pipeline started, by its own clock.
    """

    reject_transactions: bool
    check_interval_ms: int
    time_ms: int

    def to_json(self) -> bytes:
        """Return it as the value of a record."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, value: bytes | None) -> PipelineStatus | None:
        """Return the status in a record's value; None for anything else."""
        try:
            said = json.loads(value or b"")
            return cls(
                said["reject_transactions"] is True,
                int(said["check_interval_ms"]),
                int(said["time_ms"]),
            )
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return None
