"""The page engine and the model agree on everything that can happen."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.deciding import rules
from tests.property.model import COMMIT, DELIVERED, ROLLBACK, UNKNOWN, Model, Record
from tests.property.paged import PagedEngine

from checkback.protocol.refusals import RefusedReason
from checkback.state import BEFORE_OPS, Action, EventKind

OFFSETS = 16
RULES = rules(
    transaction_timeout_ms=60,
    check_interval_ms=100,
    check_max=2,
    half_retention_ms=900,
    verdict_retention_ms=300,
)
FIRST_OF_THEM = RefusedReason.ACCESS_KEY_MISSING
IDENTITY_REASONS = [one for one in RefusedReason if one >= FIRST_OF_THEM]
"""Why access control refuses a half or an op before the state sees what it says."""
VERDICTS = {
    Action.COMMIT, Action.ROLLBACK, Action.DISCARD_EXPIRED, Action.DISCARD_CHECK_LIMIT,
    Action.CHECK,
}  # fmt: skip
OF_SILENCE = {Action.CHECK, Action.DISCARD_EXPIRED, Action.DISCARD_CHECK_LIMIT}
offsets = st.integers(0, OFFSETS - 1)
states = st.sampled_from([COMMIT, COMMIT, ROLLBACK, UNKNOWN])
direct_states = st.sampled_from([DELIVERED, DELIVERED, COMMIT, ROLLBACK, UNKNOWN])
groups = st.sampled_from([1, 1, 1, 1, 2])
transactions = st.sampled_from([1, 1, 1, 1, 2, 3])


class Checkback(RuleBasedStateMachine):
    """Records are written at any time and read in batches of any size; time advances by any
    step."""

    page_sizes: ClassVar[tuple[int, ...]] = (1, 7, 1024)
    budgets: ClassVar[tuple[int, ...]] = (2**31,)

    @initialize(keeps_ledger=st.booleans())
    def start(self, *, keeps_ledger: bool) -> None:
        self.now = 1_000_000
        self.in_force = RULES
        self.model = Model()
        self.engines = [PagedEngine(size) for size in self.page_sizes]
        self.half_topic: list[Record] = []
        self.refused_halves: set[int] = set()
        self.op_topic: list[Record] = []
        self.halves_read = self.ops_read = 0
        self.wake_all = False
        self.model.tell_prepared = keeps_ledger
        for engine in self.engines:
            engine.tell_prepared = keeps_ledger

    @rule(number=st.integers(1, 6), immunity=st.sampled_from([-1, -1, 0, 5, 250, 2_000]))
    def write_halves(self, number: int, immunity: int) -> None:
        for _ in range(number):
            at = len(self.half_topic)
            record = Record(EventKind.HALF, at, at, self.now, detail=immunity)
            self.half_topic.append(record)

    @rule(offset=offsets, state=direct_states, transaction=transactions)
    def write_direct_op(self, offset: int, state: int, transaction: int) -> None:
        source = BEFORE_OPS + len(self.op_topic)
        record = Record(EventKind.OP, offset, source, self.now, 1, transaction, state)
        self.op_topic.append(record)

    @rule(reason=st.sampled_from([RefusedReason.NOT_A_HALF, *IDENTITY_REASONS]))
    def write_bad_half(self, reason: RefusedReason) -> None:
        at = len(self.half_topic)
        self.refused_halves.add(at)
        self.half_topic.append(Record(EventKind.REFUSED_HALF, at, at, self.now, detail=reason))

    @rule(
        offset=offsets,
        state=states,
        group=groups,
        transaction=transactions,
        times=st.integers(1, 2),
    )
    def write_ops(self, offset: int, state: int, group: int, transaction: int, times: int) -> None:
        for _ in range(times):
            record = Record(
                EventKind.OP, offset, len(self.op_topic), self.now, group, transaction, state
            )
            self.op_topic.append(record)

    @rule(offset=offsets, check_times=st.integers(0, 3))
    def write_feedback(self, offset: int, check_times: int) -> None:
        source = len(self.op_topic)
        record = Record(EventKind.UNDELIVERED, offset, source, self.now, 0, 0, check_times)
        self.op_topic.append(record)

    @rule(detail=st.sampled_from([RefusedReason.OP_OFFSET_UNREADABLE, *IDENTITY_REASONS]))
    def write_bad_op(self, detail: RefusedReason) -> None:
        source = len(self.op_topic)
        self.op_topic.append(Record(EventKind.REFUSED_OP, source, source, self.now, detail=detail))

    @rule(step=st.sampled_from([0, 1, 39, 60, 61, 100, 101, 299, 300, 304, 1_000]))
    def let_time_pass(self, step: int) -> None:
        self.now += step

    @rule(step=st.sampled_from([1, 50, 400]))
    def set_clock_back(self, step: int) -> None:
        self.now -= step

    @rule(enabled=st.booleans(), reject=st.booleans(), check_max=st.integers(0, 3))
    def restart_with_other_settings(self, *, enabled: bool, reject: bool, check_max: int) -> None:
        self.in_force = replace(
            RULES, check_enabled=enabled, reject_transactions=reject, check_max=check_max
        )
        self.wake_all = True

    @rule(halves=st.integers(0, 12), ops=st.integers(0, 12), data=st.data())
    def run_batch(self, halves: int, ops: int, data: st.DataObject) -> None:
        read = self._read(halves, ops)
        shuffled = data.draw(st.permutations(read))
        budget = data.draw(st.sampled_from(self.budgets))
        unread_ms = data.draw(st.sampled_from([0, 0, 1, 61, 400, self.now + 1]))
        given = (self.now, self.in_force, budget, self.now - unread_ms)
        expected = self.model.batch(read, *given)
        for engine in self.engines:
            before = dict(engine.rows)
            found = engine.batch(shuffled, *given, wake_all=self.wake_all)
            after = dict(engine.rows)
            assert found == expected
            verdicts = {act.offset for act in found[0] if act.action in VERDICTS}
            assert not verdicts & self.refused_halves, "a refused half got a verdict"
            if not self.in_force.check_enabled:
                assert not OF_SILENCE & {act.action for act in found[0]}, "checks are off"
            engine.rows = before
            again = engine.batch(read, *given, wake_all=self.wake_all)
            assert (again, engine.rows) == (found, after), "a replay decided otherwise"
        self.wake_all = False

    @precondition(lambda self: not self.in_force.check_enabled)
    @rule()
    def turn_checks_on(self) -> None:
        self.restart_with_other_settings(enabled=True, reject=False, check_max=2)

    @invariant()
    def the_same_is_remembered(self) -> None:
        times = sorted(self.model.pending_times())
        for engine in self.engines:
            assert sorted(engine.pending_times()) == times
            assert bool(engine.rows) == (not self.model.is_blank())

    def _read(self, halves: int, ops: int) -> list[Record]:
        read = self.half_topic[self.halves_read :][:halves]
        read_ops = self.op_topic[self.ops_read :][:ops]
        self.halves_read += len(read)
        self.ops_read += len(read_ops)
        return read + read_ops


class CheckbackOnABudget(Checkback):
    """The same with fewer check requests than are due. Each page has its own budget, so only one
    page."""

    page_sizes: ClassVar[tuple[int, ...]] = (1024,)
    budgets: ClassVar[tuple[int, ...]] = (0, 1, 3)


TestCheckback = Checkback.TestCase
TestCheckback.settings = settings(max_examples=300, stateful_step_count=40)
TestCheckbackOnABudget = CheckbackOnABudget.TestCase
TestCheckbackOnABudget.settings = settings(max_examples=100, stateful_step_count=40)
