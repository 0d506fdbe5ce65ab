"""One partition of a relay: decides what becomes of each op; pure.

The numbers of rules are those of docs/decisions/relay.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from checkback.protocol.decided import OpKind, RelayMark, Taken
from checkback.protocol.properties import TRANSACTION_COMMIT_TYPE, TRANSACTION_NOT_TYPE
from checkback.relay.memory import HalfMemory, HeldHalf
from checkback.relay.reading import ParsedOp
from checkback.sinks.records.sink_record import SinkRecord
from checkback.sinks.records.source_record import SourceRecord

HIDDEN_S: Final = 1.0
"""How long an op waits for a stored half that an open transaction may hide."""
BLOCKED_KEYS_MAX: Final = 10_000
"""With more keys that wait for the job, the whole partition does."""
NOT_YET: Final = 2**62
"""Stands for the offset of a record that is not committed yet."""


class ReadOp(NamedTuple):
    """An op as it was read.

    Args:
        parsed: None where its headers can't be read.
        read_s: when it was read, by a clock that is never set.
        content_bytes: about how large it is.
    """

    partition: int
    offset: int
    record: SourceRecord
    parsed: ParsedOp | None
    read_s: float
    content_bytes: int = 0


class RelayedOp(NamedTuple):
    """An op, and what becomes of it.

    Args:
        final: the final of a delivered op.
        why: why an op is passed, empty for others.
        key: the key of a delivered op's half.
    """

    op: ReadOp
    kind: OpKind
    final: SinkRecord | None = None
    why: str = ""
    key: bytes | None = None

    @property
    def bytes_written(self) -> int:
        """About how large its records are."""
        final = b"" if self.final is None else self.final.value or b""
        return self.op.content_bytes + len(final)


class JobPosition(NamedTuple):
    """How far the job has read and written: offsets of the decided and of the half partition."""

    decided: int
    half: int


NOWHERE: Final = JobPosition(0, 0)
MakeFinal = Callable[[ReadOp, HeldHalf, int], SinkRecord | str]
"""Makes the final of an op, its half and the half's offset; else says why the job has to judge."""


@dataclass(slots=True)
class RelayPartition:
    """One partition of the op topic, with those of the half and the decided topic.

    Args:
        taken: the span of ops that a start of the job gave to relays.
        position: the next op to decide.
        half_position: the next half to read, at a start the half partition's end (rule 6).
        is_ordered: whether finals of one key keep their order.
        behind: until the job has come there, no half with a key is delivered (rule 10).
    """

    number: int
    taken: Taken
    position: int
    half_position: int
    memory: HalfMemory
    is_ordered: bool
    behind: JobPosition
    job: JobPosition = NOWHERE
    read_until_ms: int = 0
    ops: deque[ReadOp] = field(default_factory=deque)
    """Ops that were read and are not decided yet."""
    op_bytes: int = 0
    """About how large these ops are."""
    ops_read_to: int = 0
    """Every op below this offset of the op partition was read."""
    half_end: int = 0
    half_end_asked_s: float = float("-inf")
    is_paused: bool = False
    """Whether no further ops are read for now."""
    _blocked: dict[bytes, JobPosition] = field(default_factory=dict)
    _given_up_to: int = 0
    """No half below this offset is waited for or held: an open transaction hid it for too long."""

    def __post_init__(self) -> None:
        self.half_end = max(self.half_end, self.half_position)

    @property
    def next_op(self) -> int:
        """The next op to read."""
        return self.ops[-1].offset + 1 if self.ops else self.position

    @property
    def floor(self) -> int:
        """No half below this offset will be delivered (rule 7)."""
        lowest = self.memory.lowest
        return self.half_position if lowest is None else lowest

    @property
    def mark(self) -> RelayMark:
        """How far the relay has come (rule 7)."""
        taken = self.taken
        return RelayMark(
            self.position, self.floor, self.read_until_ms, taken.ops_from, taken.halves_from,
            taken.op_topic_id,
        )  # fmt: skip

    def read_op(self, op: ReadOp) -> None:
        """Add an op that was read."""
        self.ops.append(op)
        self.op_bytes += op.content_bytes

    def read_half(self, offset: int, half: HeldHalf | None) -> None:
        """Note a record that was read; hold it if it is a half that was not given up."""
        if offset < self.half_position:
            return
        self.read_halves_to(offset + 1)
        if half is not None and offset >= self._given_up_to:
            self.memory.hold(offset, half)

    def read_halves_to(self, end: int) -> None:
        """Note that every half below that offset was read."""
        self.half_position = max(self.half_position, end)
        self.half_end = max(self.half_end, end)

    def learn_half_end(self, end: int, asked_s: float) -> None:
        """Note the half partition's end, and when it was asked for."""
        self.half_end, self.half_end_asked_s = max(self.half_end, end), asked_s

    def needs_end(self) -> bool:
        """Tell whether the next op can only be decided by the half partition's end (rule 5)."""
        op = self.ops[0] if self.ops else None
        named = None if op is None or op.parsed is None else op.parsed.named
        if op is None or named is None or named < max(self.half_position, self.half_end):
            return False
        return op.read_s > self.half_end_asked_s

    def take_op(self, now_s: float, make_final: MakeFinal) -> RelayedOp | None:
        """Take the next op; return what becomes of it, None if it has to wait or none is there."""
        verdict = self._decided(self.ops[0], now_s, make_final) if self.ops else None
        if verdict is not None:
            self.op_bytes -= self.ops.popleft().content_bytes
            self.position = verdict.op.offset + 1
            stored_ms = verdict.op.record.timestamp()[1]
            # The next op may have been stored in the same millisecond.
            self.read_until_ms = max(self.read_until_ms, stored_ms - 1)
        if not self.ops:  # records that are no ops follow, such as ends of transactions
            self.position = max(self.position, self.ops_read_to)
        return verdict

    def _decided(self, op: ReadOp, now_s: float, make_final: MakeFinal) -> RelayedOp | None:
        parsed = op.parsed
        if parsed is None:
            return RelayedOp(op, OpKind.UNREADABLE)
        named = parsed.named
        if named is None or parsed.state in (None, TRANSACTION_NOT_TYPE):
            return RelayedOp(op, OpKind.PASSED, why="no verdict")
        if named >= self.half_position:
            return self._of_unread_half(op, named, now_s)
        half = self.memory.take(named)  # rule 4: whatever becomes of the op
        if half is None:
            return self._passed(op, named, None, "half not held")
        final = self._final(op, parsed, half, make_final)
        if isinstance(final, str):
            return self._passed(op, named, half, final)
        return RelayedOp(op, OpKind.DELIVERED, final, key=half.record.key())

    def _of_unread_half(self, op: ReadOp, named: int, now_s: float) -> RelayedOp | None:
        """Decide an op that names a half which was not read (rule 5)."""
        if named >= self.half_end:
            return RelayedOp(op, OpKind.EARLY) if op.read_s <= self.half_end_asked_s else None
        if named >= self._given_up_to:
            if now_s - op.read_s < HIDDEN_S:
                return None
            self._given_up_to = self.half_end
        return self._passed(op, named, None, "half hidden")

    def _final(
        self, op: ReadOp, parsed: ParsedOp, half: HeldHalf, make_final: MakeFinal
    ) -> SinkRecord | str:
        """Return the final of a clean commit (rule 3); else why there is none."""
        if parsed.state != TRANSACTION_COMMIT_TYPE:
            return "rollback"
        if parsed.named is None or parsed.identity != half.identity:
            return "not accepted"
        if self._is_blocked(half.record.key()):
            return "order"
        return make_final(op, half, parsed.named)

    def _passed(self, op: ReadOp, named: int, half: HeldHalf | None, why: str) -> RelayedOp:
        if op.parsed is not None and op.parsed.state == TRANSACTION_COMMIT_TYPE:
            if half is None:
                self.behind = JobPosition(NOT_YET, max(self.behind.half, named + 1))
            else:
                self._block(half.record.key(), named)
        return RelayedOp(op, OpKind.PASSED, why=why)

    def _block(self, key: bytes | None, named: int) -> None:
        """Pass further commits of a passed commit's key until the job has written it (rule 10)."""
        if key is None or not self.is_ordered:
            return
        before = self._blocked.get(key, NOWHERE)
        self._blocked[key] = JobPosition(NOT_YET, max(before.half, named + 1))
        if len(self._blocked) > BLOCKED_KEYS_MAX:  # the job stands: all keys wait for it
            last = max(place.half for place in self._blocked.values())
            self.behind = JobPosition(NOT_YET, max(self.behind.half, last))
            self._blocked.clear()

    def _is_blocked(self, key: bytes | None) -> bool:
        if key is None or not self.is_ordered:
            return False
        return not self._has_written(self.behind) or key in self._blocked

    @property
    def awaits_job(self) -> bool:
        """Whether commits are passed until the job has come further (rule 10)."""
        return self.is_ordered and (bool(self._blocked) or not self._has_written(self.behind))

    def _has_written(self, place: JobPosition) -> bool:
        return self.job.decided >= place.decided and self.job.half >= place.half

    def pass_again(self, verdict: RelayedOp) -> RelayedOp:
        """Return what becomes of an op after its transaction failed (rule 11)."""
        parsed = verdict.op.parsed
        if verdict.kind is not OpKind.DELIVERED or parsed is None or parsed.named is None:
            return verdict
        self._block(verdict.key, parsed.named)
        return RelayedOp(verdict.op, OpKind.PASSED, why="transaction failed")

    def committed(self, mark_offset: int) -> None:
        """Note that a group was committed: its records stand before its mark."""
        if self.behind.decided == NOT_YET:
            self.behind = self.behind._replace(decided=mark_offset)
        for key, place in self._blocked.items():
            if place.decided == NOT_YET:
                self._blocked[key] = place._replace(decided=mark_offset)

    def job_has_written(self, job: JobPosition) -> None:
        """Note how far the job has come, and unblock what it has written."""
        self.job = JobPosition(max(self.job.decided, job.decided), max(self.job.half, job.half))
        if self._blocked:
            self._blocked = {
                key: place for key, place in self._blocked.items() if not self._has_written(place)
            }
