"""Whatever a job did, a rebuild restores its page from marks, halves and ops."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from tests.deciding import rules
from tests.property.model import COMMIT, ROLLBACK, UNKNOWN, Record
from tests.property.paged import acts_of, events_of

from checkback.operations.rebuild.page import Known, restore_page
from checkback.protocol.refusals import RefusedReason
from checkback.state import (
    Action,
    EventKind,
    Page,
    Rules,
    SettledMarks,
    decide,
    pack_settled,
    unpack_settled,
)
from checkback.state.formats.outcome import Outcome

SIZE = 12
RULES = rules(
    transaction_timeout_ms=1_000,
    check_interval_ms=2_000,
    check_max=3,
    half_retention_ms=40_000,
    verdict_retention_ms=9_000,
)
HALVES = (EventKind.HALF, EventKind.REFUSED_HALF)
NAMED = 2
"""The first transaction of which a mark says more than that there was one."""
STEPS_MS = (1, 400, 1_001, 2_001, 5_000, 10_001)


class World:
    """A job and its topics. A check request may find no topic; then the job gets one feedback."""

    def __init__(self, chance: random.Random, transaction: int = 1) -> None:
        self.chance = chance
        self.transaction = transaction
        self.now_ms = 1_000_000
        self.page = Page.empty(0, 0, SIZE)
        self.written: list[Record] = []
        self.marks: list[SettledMarks] = []
        self.refused: set[int] = set()
        self.undelivered: list[Record] = []
        self.halves = 0
        self.ops = 0

    def batch(self) -> None:
        self.now_ms += self.chance.choice(STEPS_MS)
        arrived = [*self.undelivered, *self._halves(), *self._ops()]
        self.chance.shuffle(arrived)
        decision = decide(self.page, events_of(arrived), self.now_ms, RULES, check_budget=5)
        self.page = Page.unpack(decision.page.pack())
        self.written += arrived
        self._note(decision.outcome)

    def _halves(self) -> list[Record]:
        wanted = min(self.chance.choice((0, 0, 1, 3)), SIZE - self.halves)
        first, self.halves = self.halves, self.halves + wanted
        kinds = self.chance.choices(HALVES, (9, 1), k=wanted)
        return [self._half(first + at, kind) for at, kind in enumerate(kinds)]

    def told(self) -> list[Record]:
        """Return what a rebuild reads."""
        every = [*self.written, *self.undelivered]
        is_refused = [one.kind == EventKind.OP and one.source in self.refused for one in every]
        return [one for one, refused in zip(every, is_refused, strict=True) if not refused]

    def _half(self, at: int, kind: EventKind) -> Record:
        detail = self._half_detail(kind)
        return Record(kind, at, at, self.now_ms, transaction=self.transaction, detail=detail)

    def _half_detail(self, kind: EventKind) -> int:
        return 1 if kind == EventKind.REFUSED_HALF else self.chance.choice((-1, -1, 7_000))

    def _ops(self) -> list[Record]:
        settled = self.page.settled.verdict
        pending = {*self.page.halves.index.tolist()}
        # The job keeps an op for a forgotten verdict waiting for its half; a rebuild knows the
        # verdict.
        known = [at for at in range(self.halves) if at in pending or settled[at]]
        targets = [*known, *range(self.halves, SIZE)]
        wanted = self.chance.choice((0, 1, 2)) if targets else 0
        return [self._op(self.chance.choice(targets)) for _ in range(wanted)]

    def _op(self, offset: int) -> Record:
        self.ops += 1
        state = self.chance.choice((COMMIT, COMMIT, ROLLBACK, UNKNOWN))
        transaction = self.transaction + self.chance.choice((0, 0, 0, 1))
        return Record(EventKind.OP, offset, self.ops, self.now_ms, 1, transaction, state)

    def _note(self, outcome: Outcome) -> None:
        self.marks.append(unpack_settled(pack_settled(outcome, len(self.marks))))
        self.undelivered = []
        for action, offset, detail, source in acts_of(outcome):
            if action == Action.REFUSE_OP:
                self.refused.add(source)
            if action == Action.CHECK and self.chance.random() < 0.3:
                self.ops += 1
                feedback = (EventKind.UNDELIVERED, offset, self.ops, self.now_ms, 0, 0, detail)
                self.undelivered.append(Record(*feedback))


@pytest.mark.parametrize("seed", range(60))
def test_a_page_is_restored_as_it_was(seed: int) -> None:
    world = World(random.Random(seed))
    for _ in range(1 + seed % 25):
        world.batch()
    told = world.told()
    if seed % 3 == 0:
        told = [disbelieved(one) if is_marked(one, world.marks) else one for one in told]
    restored = restore_page(
        Page.empty(0, 0, SIZE), events_of(told), world.marks, Known(0, SIZE, 0), world.now_ms, RULES
    )

    waiting, page = world.page.waiting, world.page
    unread = decide(page, events_of(world.undelivered), world.now_ms, quiet()).page
    after = restored.page.halves
    for name in (
        "index",
        "store_time_ms",
        "deadline_ms",
        "check_times",
        "identity",
        "identity_rest",
    ):
        wanted = getattr(unread.halves, name).tolist()
        assert getattr(after, name).tolist() == wanted, name
    assert restored.page.settled.verdict.tolist() == page.settled.verdict.tolist()
    left = restored.events.source_offset.tolist()
    assert sorted(left) == sorted(waiting.source_offset.tolist())
    assert restored.counts.lost == restored.counts.foreign == restored.counts.unknown == 0


@pytest.mark.parametrize("seed", range(60))
def test_what_the_marks_of_lost_halves_say_reaches_no_other_half(seed: int) -> None:
    chance = random.Random(seed)
    world = World(chance, transaction=NAMED)
    for _ in range(1 + seed % 25):
        world.batch()
    end = chance.randint(0, world.halves)
    kept = [one for one in world.told() if one.kind not in HALVES or one.offset < end]
    new = [Record(EventKind.HALF, at, at, world.now_ms, 1, 99, -1) for at in range(end, SIZE)][:3]
    events = events_of([*kept, *new])
    known = Known(0, end + len(new), 0, is_marked_topic=True)

    restored = restore_page(Page.empty(0, 0, SIZE), events, world.marks, known, world.now_ms, RULES)

    page, verdict = restored.page, world.page.settled.verdict
    assert page.settled.verdict.tolist() == [*verdict[:end].tolist(), *[0] * (SIZE - end)]
    before = [at for at in world.page.halves.index.tolist() if at < end]
    assert page.halves.index.tolist() == [*before, *(one.offset for one in new)]
    assert not page.halves.check_times[len(before) :].any()
    assert restored.counts.foreign == 0


def is_marked(record: Record, marks: list[SettledMarks]) -> bool:
    """Tell whether some mark names the plain half."""
    named = {offset for one in marks for offset in one.offset.tolist()}
    return record.kind == EventKind.HALF and record.offset in named


def disbelieved(half: Record) -> Record:
    """Return a half as decoding shows it where its account's secret is gone since."""
    reason = int(RefusedReason.SIGNATURE_WRONG)
    return half._replace(kind=EventKind.REFUSED_HALF, detail=reason)


def quiet() -> Rules:
    """Rules under which only records change a page."""
    return replace(RULES, verdict_retention_ms=10**9, check_enabled=False)
