"""What must hold, whatever happens; kept from the records and outcomes alone."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable

from tests.property.model import COMMIT, ROLLBACK, UNKNOWN, Act, Record
from tests.simulation.world import World

from checkback.state import CHECKS, Action, Counter, EventKind, Rules

VERDICTS = (
    Action.COMMIT,
    Action.ROLLBACK,
    Action.DISCARD_CHECK_LIMIT,
    Action.DISCARD_EXPIRED,
)


class Audit:
    """Follows a run batch by batch."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.deadline: dict[int, int] = {}
        self.asked: Tally[int] = Tally()
        self.verdict: dict[int, Action] = {}
        self.halves_read: dict[int, Record] = {}
        self.refused_halves: set[int] = set()
        self.ops_read = 0
        self.tally: Tally[Counter] = Tally()
        self.latest_ms = 0
        self.excused_until = 0

    def batch(
        self,
        records: Iterable[Record],
        acts: Iterable[Act],
        tally: Tally[Counter],
        now: int,
        rules: Rules,
    ) -> None:
        """Take one committed batch in, and check what has to hold after it."""
        records = sorted(records, key=lambda record: record.source)
        acts = list(acts)
        self.tally += tally
        refused = {act.offset for act in acts if act.action == Action.REFUSE_HALF}
        self.refused_halves |= refused
        for record in records:
            self._read(record, refused, rules)
        commits_read = {r.offset for r in records if self._is_honest_verdict(r)}
        for act in acts:
            self._acted(act, now, rules)
            if act.action in CHECKS:
                assert act.offset not in commits_read, f"{act} although its op was read"
        if not rules.check_enabled:
            # Pages look again after an interval, so this long it takes to see checks on again.
            self.excused_until = max(self.excused_until, now + rules.check_interval_ms)
        elif not tally[Counter.CHECKS_DEFERRED]:
            self._nobody_is_silent(now)
        self.latest_ms = max(self.latest_ms, now)

    def _read(self, record: Record, refused: set[int], rules: Rules) -> None:
        if record.kind == EventKind.HALF and record.offset not in refused:
            immunity = record.detail if record.detail >= 0 else rules.transaction_timeout_ms
            self.deadline[record.offset] = record.time + immunity
            self.halves_read[record.offset] = record
        elif record.kind == EventKind.OP and record.detail != UNKNOWN:
            self.ops_read += 1
        elif record.kind == EventKind.UNDELIVERED and self.asked[record.offset] == record.detail:
            self.asked[record.offset] -= 1

    def _is_honest_verdict(self, record: Record) -> bool:
        transaction = self.world.transactions.get(record.offset)
        if record.kind != EventKind.OP or record.detail == UNKNOWN or transaction is None:
            return False
        return (record.group, record.transaction) == (transaction.group, transaction.number)

    def _acted(self, act: Act, now: int, rules: Rules) -> None:
        if act.action in CHECKS:
            assert act.offset not in self.verdict, f"{act} after {self.verdict[act.offset]!r}"
            assert now > self.deadline[act.offset], f"{act} before its deadline"
            self.asked[act.offset] += 1
            assert act.detail == self.asked[act.offset], f"{act}: asked {self.asked[act.offset]}"
            assert act.detail <= rules.check_max, f"{act}: more than check_max"
            self.deadline[act.offset] = now + rules.check_interval_ms
            self.world.ask(act.offset, act.detail)
        elif act.action in VERDICTS:
            self._verdict_given(act, now, rules)

    def _verdict_given(self, act: Act, now: int, rules: Rules) -> None:
        transaction = self.world.transactions[act.offset]
        assert act.offset in self.halves_read, f"{act} before its half"
        assert act.offset not in self.verdict, f"{act} after {self.verdict[act.offset]!r}"
        self.verdict[act.offset] = act.action
        if act.action == Action.COMMIT:
            assert transaction.state == COMMIT, f"{act}: the application rolled it back"
        elif act.action == Action.ROLLBACK:
            assert transaction.state == ROLLBACK, f"{act}: the application committed it"
        elif act.action == Action.DISCARD_EXPIRED:
            assert now - transaction.stored_at > rules.half_retention_ms, f"{act}: not expired"
        else:
            assert act.detail == self.asked[act.offset] >= rules.check_max, f"{act}: counts"
            assert now > self.deadline[act.offset], f"{act} before the last answer's time"

    def _nobody_is_silent(self, now: int) -> None:
        """No half waits longer than its deadline plus one batch, as far as the clock goes on."""
        if now <= max(self.latest_ms + 1, self.excused_until):
            return
        for offset, deadline in self.deadline.items():
            assert offset in self.verdict or now <= deadline, f"{offset} silent since {deadline}"

    def at_the_end(self) -> None:
        """Check what has to hold once everybody had time to answer."""
        assert set(self.verdict) == set(self.halves_read), "a half has no verdict"
        read = set(self.halves_read) | self.refused_halves
        assert read == set(self.world.transactions), "a half got lost"
        counted = self.tally
        settled = counted[Counter.COMMITS] + counted[Counter.ROLLBACKS]
        assert counted[Counter.HALVES] == settled + counted[Counter.DISCARDS]
        refusals = counted[Counter.REFUSALS] - len(self.refused_halves)
        assert self.ops_read == settled + counted[Counter.REPEATED_OPS] + refusals
        for offset, verdict in self.verdict.items():
            if self.world.transactions[offset].is_forgotten:
                assert verdict in (Action.DISCARD_CHECK_LIMIT, Action.DISCARD_EXPIRED)
