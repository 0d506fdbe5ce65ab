"""A literal model of the rules, one half offset at a time; the page engine must agree with it.

It shares only the names and numbers of records and actions with the engine. It has no arrays, no
table and no pages, so that you can compare it with the rules line by line.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from checkback.protocol.refusals import RefusedReason as Reason
from checkback.state import Action, Counter, EventKind, Rules

COMMIT, ROLLBACK, UNKNOWN, DELIVERED = 8, 12, 0, 9
SAYS = {COMMIT: "commit", ROLLBACK: "rollback", DELIVERED: "delivered"}


class Record(NamedTuple):
    """One event; the fields are those of Events."""

    kind: EventKind
    offset: int
    source: int
    time: int = 0
    group: int = 1
    transaction: int = 1
    detail: int = -1


class Act(NamedTuple):
    """One row of an outcome."""

    action: Action
    offset: int
    detail: int
    source: int


@dataclass
class Half:
    time: int
    deadline: int
    group: int
    transaction: int
    asked: int = 0


@dataclass
class Offset:
    """Everything known about one half offset."""

    number: int
    half: Half | None = None
    verdict: str = ""
    forget_at: int = 0
    waiting: list[tuple[int, Record]] = field(default_factory=list)
    settled_half: Half | None = None  # known only until the end of the batch


class Model:
    """Checkback as a dictionary of offsets."""

    def __init__(self) -> None:
        self.offsets: dict[int, Offset] = {}
        self.acts: list[Act] = []
        self.tally: Tally[Counter] = Tally()
        self.tell_prepared = False

    def batch(
        self,
        records: Iterable[Record],
        now: int,
        rules: Rules,
        budget: int = 2**31,
        read_until: int = 2**62,
    ) -> tuple[set[Act], Tally[Counter]]:
        """Return the outcome of one batch, and its counters."""
        self.acts, self.tally, self.now, self.rules = [], Tally(), now, rules
        self.all_read_until = min(now, read_until)
        inputs = sorted(records, key=lambda record: record.source)
        self.take_halves(inputs)
        for record in inputs:
            self.take_op_or_refused(record)
        for (
            record
        ) in inputs:  # after the ops, because after a verdict the check number no longer matters
            if record.kind == EventKind.UNDELIVERED:
                self.take_feedback(self.at(record.offset).half, record)
        if rules.check_enabled:
            self.ask_and_discard(budget)
        for offset in self.offsets.values():
            self.let_time_pass(offset)
        return set(self.acts), +self.tally

    def at(self, number: int) -> Offset:
        return self.offsets.setdefault(number, Offset(number))

    def act(self, action: Action, offset: int, detail: int, source: int | None = None) -> None:
        self.acts.append(Act(action, offset, detail, offset if source is None else source))

    def refuse(self, op: Record, reason: Reason) -> None:
        self.tally[Counter.REFUSALS] += 1
        if op.source >= 0:
            self.act(Action.REFUSE_OP, op.offset, reason, op.source)

    def take_halves(self, inputs: list[Record]) -> None:
        for record in inputs:
            if record.kind == EventKind.HALF:
                self.take_half(self.at(record.offset), record)
        for offset in self.offsets.values():
            if offset.half:
                waited, offset.waiting = offset.waiting, []
                for _, op in waited:
                    self.take_op_or_refused(op)

    def take_half(self, offset: Offset, record: Record) -> None:
        if offset.half or offset.verdict:
            self.tally[Counter.REPEATED_HALVES] += 1
        elif self.rules.reject_transactions:
            self.tally[Counter.REFUSALS] += 1
            self.act(Action.REFUSE_HALF, offset.number, Reason.TRANSACTIONS_REJECTED)
        else:
            immunity = record.detail if record.detail >= 0 else self.rules.transaction_timeout_ms
            deadline = record.time + immunity
            offset.half = Half(record.time, deadline, record.group, record.transaction)
            if self.tell_prepared:
                self.act(Action.PREPARED, offset.number, 0)
            self.tally[Counter.HALVES] += 1

    def take_feedback(self, half: Half | None, record: Record) -> None:
        if half and half.asked == record.detail > 0:
            half.asked -= 1
            self.tally[Counter.CHECKS_UNDELIVERED] += 1

    def take_op_or_refused(self, record: Record) -> None:
        if record.kind == EventKind.OP:
            self.take_op(self.at(record.offset), record)
        elif record.kind == EventKind.REFUSED_HALF:
            self.tally[Counter.REFUSALS] += 1
            self.act(Action.REFUSE_HALF, record.offset, record.detail)
        elif record.kind == EventKind.REFUSED_OP:
            self.refuse(record, Reason(record.detail))

    def take_op(self, offset: Offset, op: Record) -> None:
        known = offset.half or offset.settled_half
        if op.detail == UNKNOWN:
            self.tally[Counter.UNKNOWN_OPS] += 1
        elif known and known.group != op.group:
            self.refuse(op, Reason.OP_GROUP_WRONG)
        elif known and known.transaction != op.transaction:
            self.refuse(op, Reason.OP_TRANSACTION_ID_WRONG)
        elif offset.half:
            self.settle(offset, SAYS[op.detail])
        elif offset.verdict:
            self.take_late_op(offset.verdict, op)
        else:
            self.let_wait(offset, op)

    def let_wait(self, offset: Offset, op: Record) -> None:
        # A page also bounds its delivered ops; no history reaches that bound.
        others = [one for _, one in offset.waiting if one.detail != DELIVERED]
        begins = max(op.time, self.now)
        if op.detail == DELIVERED:
            self.tally[Counter.OPS_WAITING] += 1
            offset.waiting.append((begins + self.rules.half_retention_ms, op))
        elif len(others) < 4:
            self.tally[Counter.OPS_WAITING] += 1
            offset.waiting.append((begins + self.rules.verdict_retention_ms, op))
        else:
            self.expire(op)

    def take_late_op(self, verdict: str, op: Record) -> None:
        said = SAYS[op.detail]
        if said == verdict:
            self.tally[Counter.REPEATED_OPS] += 1
        else:
            self.refuse(op, Reason[f"{said}_after_{verdict}".upper()])
            self.tally[Counter.DELIVERED_REFUSED] += said == "delivered"

    def settle(self, offset: Offset, verdict: str) -> None:
        retention = self.rules.verdict_retention_ms
        step = max(1, retention // 64)
        offset.forget_at = (self.now + retention + step - 1) // step * step
        offset.half, offset.settled_half, offset.verdict = None, offset.half, verdict
        if verdict in ("commit", "delivered"):
            is_delivered = verdict == "delivered"
            offset.verdict = "commit"
            self.act(Action.DELIVERED if is_delivered else Action.COMMIT, offset.number, 0)
            self.tally[Counter.COMMITS] += 1
            self.tally[Counter.DELIVERED] += is_delivered
        elif verdict == "rollback":
            self.act(Action.ROLLBACK, offset.number, 0)
            self.tally[Counter.ROLLBACKS] += 1
        else:
            self.tally[Counter.DISCARDS] += 1

    def expire(self, op: Record) -> None:
        self.tally[Counter.OPS_EXPIRED] += 1
        self.refuse(op, Reason.OP_WITHOUT_HALF)

    def ask_and_discard(self, budget: int) -> None:
        due = []
        for offset in self.offsets.values():
            half = offset.half
            if not half:
                continue
            # Silence counts only up to where every op was read.
            read = self.all_read_until
            is_old = read - half.time > self.rules.half_retention_ms
            is_due = read > half.deadline
            is_used_up = is_due and half.asked >= (self.rules.check_max or 1)
            if is_old:
                self.discard(offset, half, "EXPIRED")
            elif is_used_up:
                self.discard(offset, half, "CHECK_LIMIT")
            elif is_due:
                due.append((half.deadline, offset.number, half))
        due.sort(key=lambda one: one[:2])
        for _, number, half in due[:budget]:
            half.asked += 1
            half.deadline = self.now + self.rules.check_interval_ms
            self.act(Action.CHECK, number, half.asked)
            self.tally[Counter.CHECKS] += 1
        self.tally[Counter.CHECKS_DEFERRED] += len(due[budget:])

    def discard(self, offset: Offset, half: Half, why: str) -> None:
        self.act(Action[f"DISCARD_{why}"], offset.number, half.asked)
        self.settle(offset, "discard")

    def let_time_pass(self, offset: Offset) -> None:
        offset.settled_half = None
        over = [op for until, op in offset.waiting if self.all_read_until > until]
        offset.waiting = [one for one in offset.waiting if self.all_read_until <= one[0]]
        for op in over:
            self.expire(op)
        if offset.verdict and self.now > offset.forget_at:
            offset.verdict = ""

    def pending_times(self) -> list[int]:
        """Return the broker's times of the pending halves."""
        return [offset.half.time for offset in self.offsets.values() if offset.half]

    def is_blank(self) -> bool:
        """Return whether the model remembers nothing about any offset."""
        return not any(o.half or o.verdict or o.waiting for o in self.offsets.values())
