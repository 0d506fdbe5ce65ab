"""What docs/protocol.md makes of a record, read header by header in plain Python."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from tests.spark.harness import KafkaRow
from tests.spark.test_verification_reference import plainly

from checkback.protocol.refusals import RefusedReason
from checkback.protocol.topics import SYSTEM_TOPIC_PREFIXES, SYSTEM_TOPICS, TopicNames
from checkback.security import AccessControl
from checkback.state import BEFORE_OPS, EventKind
from checkback.state.formats.identity import TRANSACTION_BITS, identity_words

BODY_BYTES_MAX: Final = 300
OP_RANGES: Final = {0: (100, 50_000_000), 1: (0, 2**63 - 1), 2: (1_000_000, 10**12)}
"""By partition, from which offset up to which one ops and feedback may name halves."""
RELAYED: Final = {0: ((1, 2),), 1: ((0, 1), (2_000, 2**40)), 2: ((4_000, 2**62),)}
"""By partition, which ops of the op topic relays take."""
DECIDED_KINDS: Final = ("delivered", "passed", "early", "unreadable")


class Event(NamedTuple):
    """The columns, in their order."""

    page_key: int
    partition: int
    kind: int
    offset: int
    time_ms: int
    identity: int
    detail: int
    source_offset: int
    identity_rest: int


def first(row: KafkaRow, name: str) -> bytes | None:
    """Return the value of the first header of that name; as null where there is none."""
    return next((value for one, value in row.headers or () if one == name), None)


def number(said: bytes | None) -> int | None:
    if not said or any(one not in b"0123456789" for one in said):
        return None
    return int(said) if int(said) < 2**63 else None


def may_name(partition: int, offset: int) -> bool:
    first_offset, end = OP_RANGES.get(partition, (0, 2**63))
    return first_offset <= offset < end


def header(row: KafkaRow, at: int) -> tuple[str, bytes | None]:
    headers = row.headers or ()
    return headers[at] if at < len(headers) else ("", None)


def has_odd_name(row: KafkaRow) -> bool:
    return any("\0" in name or "\ufffd" in name for name, _ in row.headers or ())


@dataclass
class PlainReading:
    """Reads records one after the other, each Kafka partition's in its order.

    Args:
        names: of the topics.
        page_size: half offsets per page.
        rules: of access control; None without it.
    """

    names: TopicNames
    page_size: int
    rules: AccessControl | None = None

    def event(self, row: KafkaRow) -> Event | None:
        if row.topic == self.names.half:
            return self.half(row)
        if row.topic == self.names.feedback:
            return self.feedback(row)
        if row.topic == self.names.decided:
            return self.decided(row)
        spans = RELAYED.get(row.partition, ()) if row.topic == self.names.op else ()
        is_relayed = any(first <= row.offset < end for first, end in spans)
        return None if is_relayed else self.op(row)

    def decided(self, row: KafkaRow) -> Event | None:
        *rest, last = row.headers or [("", b"")]
        name, at = last[0].removeprefix("__checkback.decided."), number(last[1])
        if name not in DECIDED_KINDS or last[0] == name or at is None or len(last[1] or b"") > 19:
            return None
        op = replace(row, headers=rest, offset=at)
        return self.op(op, name)

    def made(self, row: KafkaRow, kind: int, at: int, detail: int, words: Any) -> Event:
        source = row.offset + (BEFORE_OPS if row.topic == self.names.direct_op else 0)
        page = (at // self.page_size).to_bytes(8, "big", signed=True)
        page_key = int.from_bytes(page, "little", signed=True)
        word, rest = words
        return Event(page_key, row.partition, kind, at, row.time_ms, word, detail, source, rest)

    def words(self, row: KafkaRow) -> tuple[int, int]:
        group, transaction_id = first(row, "PGROUP"), first(row, "UNIQ_KEY")
        if group is None:
            return 0, 0
        if transaction_id is None:
            return identity_words(group, b"")[0] >> TRANSACTION_BITS << TRANSACTION_BITS, 0
        return identity_words(group, transaction_id)

    def half(self, row: KafkaRow) -> Event:
        refusal = plainly(self.rules, row) if self.rules else 0
        refusal = refusal or self.refusal_of_half(row)
        kind, detail = EventKind.REFUSED_HALF, int(refusal)
        if not refusal:
            kind = EventKind.HALF
            said = first(row, "CHECK_IMMUNITY_TIME_IN_SECONDS")
            seconds = number(said) if said and len(said) <= 12 else None
            detail = -1 if seconds is None else seconds * 1_000
        return self.made(row, kind, row.offset, detail, self.words(row))

    def refusal_of_half(self, row: KafkaRow) -> int:
        group, transaction_id = first(row, "PGROUP") or b"", first(row, "UNIQ_KEY") or b""
        topic, size = first(row, "REAL_TOPIC") or b"", len(row.value or b"")
        is_long = len(group) > 255 or len(transaction_id) > 1_024
        has_times = any(name == "TRANSACTION_CHECK_TIMES" for name, _ in row.headers or ())
        reasons = {
            RefusedReason.NOT_A_HALF: first(row, "TRAN_MSG") != b"true",
            RefusedReason.HALF_WITHOUT_GROUP: not group,
            RefusedReason.HALF_WITHOUT_TRANSACTION_ID: not transaction_id,
            RefusedReason.HALF_WITHOUT_REAL_TOPIC: not topic,
            RefusedReason.HALF_FOR_SYSTEM_TOPIC: self.is_system(topic),
            RefusedReason.HALF_TOPIC_TOO_LONG: len(topic) > 127,
            RefusedReason.HALF_NAME_TOO_LONG: is_long,
            RefusedReason.HALF_HEADER_NAME_INVALID: has_odd_name(row),
            RefusedReason.HALF_WITH_CHECK_TIMES: has_times,
            RefusedReason.HALF_BODY_EMPTY: row.value == b"",
            RefusedReason.HALF_BODY_TOO_LARGE: size > BODY_BYTES_MAX,
        }
        return next((reason for reason, holds in reasons.items() if holds), 0)

    def is_system(self, topic: bytes) -> bool:
        bare = topic.removeprefix(self.names.prefix.encode())
        names = {one.encode() for one in SYSTEM_TOPICS}
        return topic == self.names.rules.encode() or any(
            one in names or one.startswith(tuple(some.encode() for some in SYSTEM_TOPIC_PREFIXES))
            for one in (topic, bare)
        )

    def feedback(self, row: KafkaRow) -> Event | None:
        (name, times), named = header(row, 1), number(row.value)
        is_feedback = header(row, 0) == ("TAGS", b"u") and name == "TRANSACTION_CHECK_TIMES"
        if not is_feedback or not number(times) or named is None:
            return None
        if not may_name(row.partition, named):
            return None
        return self.made(row, EventKind.UNDELIVERED, named, number(times) or 0, (0, 0))

    def op(self, row: KafkaRow, made_of_it: str = "") -> Event:
        may_deliver = made_of_it == "delivered" or (
            row.topic == self.names.direct_op and not self.rules
        )
        named = number(row.value)
        words, state = self.words(row), first(row, "COMMIT_OR_ROLLBACK")
        # Nobody signs for the former direct op topic: a signature there is read as one for ops.
        rules = None if made_of_it == "delivered" else self.rules
        refusal = plainly(rules, replace(row, topic=self.names.op)) if rules else 0
        if made_of_it == "unreadable":
            refusal = RefusedReason.OP_HEADER_NAME_INVALID
        refusal = refusal or self.refusal_of_op(row, state, may_deliver=may_deliver)
        is_early = made_of_it == "early" or not may_name(row.partition, named or 0)
        if not refusal and is_early:
            refusal = RefusedReason.OP_WITHOUT_HALF
        if refusal:
            return self.refused_op(row, refusal, words)
        return self.made(row, EventKind.OP, named or 0, int(state or b""), words)

    def refused_op(self, row: KafkaRow, refusal: int, words: Any) -> Event:
        return self.made(row, EventKind.REFUSED_OP, row.offset, int(refusal), words)

    def refusal_of_op(self, row: KafkaRow, state: bytes | None, *, may_deliver: bool) -> int:
        states = (b"0", b"8", b"12", *[b"9"] * may_deliver)
        reasons = {
            RefusedReason.OP_TAG_UNKNOWN: first(row, "TAGS") != b"d",
            RefusedReason.OP_OFFSET_UNREADABLE: number(row.value) is None,
            RefusedReason.OP_STATE_UNKNOWN: state not in states,
            RefusedReason.OP_WITHOUT_GROUP: not first(row, "PGROUP"),
            RefusedReason.OP_WITHOUT_TRANSACTION_ID: not first(row, "UNIQ_KEY"),
            RefusedReason.OP_HEADER_NAME_INVALID: has_odd_name(row),
        }
        return next((reason for reason, holds in reasons.items() if holds), 0)
