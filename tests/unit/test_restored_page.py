"""A page restored from marks, halves and ops must equal the lost page."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.property.model import Record
from tests.property.paged import acts_of, events_of
from tests.unit.state.building import (
    COMMIT,
    DELIVERED,
    ROLLBACK,
    RULES,
    SENT,
    UNKNOWN,
    half,
    op,
)

from checkback.operations.rebuild.page import CLOCK_MARGIN_MS, Known, RestoredPage, restore_page
from checkback.protocol.refusals import RefusedReason
from checkback.state import Action, Page, Rules, SettledMarks, decide, pack_settled, unpack_settled
from checkback.state.formats.events import EventKind

SIZE = 16
KNOWN = Known(0, 1_000, 0)
VERDICT_RETENTION = RULES.verdict_retention_ms


class Past:
    """A job whose checkpoint is lost: only its marks show what it decided."""

    def __init__(self, *halves: Record, rules: Rules = RULES) -> None:
        self.rules = rules
        self.page = Page.empty(0, 0, SIZE)
        self.written: list[Record] = list(halves)
        self.marks: list[SettledMarks] = []
        self.now_ms = SENT
        self._decide(halves, SENT)

    def batch(self, now_ms: int, *records: Record) -> Past:
        self.written += records
        self._decide(records, now_ms)
        return self

    def unread(self, *records: Record) -> Past:
        self.written += records
        return self

    def _decide(self, records: tuple[Record, ...], now_ms: int) -> None:
        self.now_ms = now_ms
        decision = decide(self.page, events_of(records), now_ms, self.rules)
        self.page = decision.page
        self.marks.append(unpack_settled(pack_settled(decision.outcome, len(self.marks))))

    def restored(self, known: Known = KNOWN, now_ms: int | None = None) -> RestoredPage:
        events, now_ms = events_of(self.written), now_ms or self.now_ms
        empty = Page.empty(0, 0, SIZE)
        return restore_page(empty, events, self.marks, known, now_ms, self.rules)


def packed(page: Page) -> bytes:
    return page.pack()


def test_an_op_that_was_not_read_is_left_for_the_first_batch() -> None:
    past = Past(half(0)).unread(op(0, UNKNOWN, 0), op(0, COMMIT, 1))

    restored = past.restored()

    assert restored.events.source_offset.tolist() == [1]
    decision = decide(restored.page, restored.events, SENT, RULES)
    assert decision.outcome.counters[2] == 1


def test_an_op_that_repeats_the_verdict_is_not_left() -> None:
    past = Past(half(0)).batch(SENT + 1, op(0, COMMIT, 0)).unread(op(0, COMMIT, 1))

    assert len(past.restored().events) == 0
    assert len(past.restored(now_ms=SENT + 10 * VERDICT_RETENTION).events) == 0


def test_an_op_against_the_verdict_is_judged_by_it_even_when_it_is_old() -> None:
    past = Past(half(0)).batch(SENT + 1, op(0, COMMIT, 0)).unread(op(0, ROLLBACK, 1))
    later = SENT + 10 * VERDICT_RETENTION

    restored = past.restored(now_ms=later)
    decision = decide(restored.page, restored.events, later, RULES)

    assert decision.outcome.detail.tolist() == [RefusedReason.ROLLBACK_AFTER_COMMIT]


def test_a_verdict_whose_time_is_over_is_not_remembered() -> None:
    past = Past(half(0), half(1)).batch(SENT + 1, op(0, COMMIT, 0))

    restored = past.restored(now_ms=SENT + 2 * VERDICT_RETENTION)

    assert not restored.page.settled.verdict.any()
    assert restored.page.pending == 1
    assert restored.counts.settled == 1


def test_an_op_of_a_half_that_is_gone_is_counted_and_not_left() -> None:
    restored = Past(half(9)).unread(op(2, COMMIT, 0)).restored(Known(8, 1_000, 0))

    assert len(restored.events) == 0
    assert restored.counts.lost == 1


def test_a_half_that_was_asked_back_and_is_gone_is_counted() -> None:
    past = Past(half(0)).batch(SENT + 6_001)
    past.written.clear()

    assert past.restored(Known(8, 1_000, 0)).counts.lost == 1


def test_a_malformed_half_is_refused_once() -> None:
    bad = Record(EventKind.REFUSED_HALF, 1, 1, SENT, 0, 0, int(RefusedReason.NOT_A_HALF))
    missed = Record(EventKind.REFUSED_HALF, 2, 2, SENT, 0, 0, int(RefusedReason.NOT_A_HALF))

    restored = Past(half(0)).batch(SENT, bad).unread(missed).restored()

    assert restored.events.offset.tolist() == [2]


def refused_today(record: Record, reason: RefusedReason = RefusedReason.SIGNATURE_WRONG) -> Record:
    """Return a half as the decoding of a rebuild shows it, by rules that do not believe it now."""
    return record._replace(kind=EventKind.REFUSED_HALF, detail=int(reason))


def test_a_half_that_was_asked_back_is_believed_whatever_rules_are_in_force_now() -> None:
    """Its account's secret was exchanged since: it was refused, and its commit found no half."""
    past = Past(half(0), half(1, immunity_ms=90_000)).batch(SENT + 6_001)
    past.written = [refused_today(one) for one in past.written]

    restored = past.restored()

    assert restored.page.halves.index.tolist() == [0]
    assert restored.page.halves.check_times.tolist() == past.page.halves.check_times.tolist()[:1]
    assert restored.page.halves.deadline_ms.tolist() == [SENT + 6_001 + RULES.check_interval_ms]
    assert (restored.counts.asked, restored.counts.lost) == (1, 0)
    assert restored.events.offset.tolist() == [1], "no mark names it, so today's rules judge it"
    committed = decide(restored.page, events_of([op(0, COMMIT, 0)]), SENT + 7_000, RULES)
    assert (
        committed.page.settled.verdict[0]
        == past.batch(SENT + 7_000, op(0, COMMIT, 0)).page.settled.verdict[0]
    )


def test_a_mark_of_another_topic_s_half_has_nobody_believed() -> None:
    past = Past(half(0)).batch(SENT + 6_001)
    younger = half(0, time=SENT + 6_001 + CLOCK_MARGIN_MS + 1)
    past.written = [refused_today(younger)]

    assert past.restored().page.pending == 0
    past.written = [refused_today(half(0), RefusedReason.NOT_A_HALF)]
    assert past.restored().page.pending == 0


def test_a_pending_half_outlives_a_rebuild_while_new_ones_are_rejected() -> None:
    past = Past(half(0))
    past.rules = replace(RULES, reject_transactions=True)

    assert past.restored().page.pending == 1


def test_halves_from_before_the_marks_that_are_kept_are_unknown() -> None:
    past = Past(half(0), half(1, time=SENT + 5_000), half(2))
    past.batch(SENT + 6_001, op(1, ROLLBACK, 0))
    past.written.append(half(3))

    counts = past.restored(Known(0, 1_000, SENT + 5_000)).counts

    assert (counts.pending, counts.asked, counts.unknown) == (3, 2, 1)


def test_unknown_halves_can_be_left_alone_with_their_ops() -> None:
    past = Past().unread(half(0), half(1, time=SENT + 5_000), op(0, COMMIT, 0), op(1, COMMIT, 1))

    restored = past.restored(Known(0, 1_000, SENT + 5_000, unknown_are_settled=True))

    assert restored.page.halves.index.tolist() == [1]
    assert restored.events.offset.tolist() == [1]
    assert restored.counts.unknown == 1


def test_marks_of_another_topic_are_told() -> None:
    past = Past(half(0)).batch(SENT, op(0, COMMIT, 0))
    past.written = [half(0, time=SENT + CLOCK_MARGIN_MS + 1)]

    assert past.restored().counts.foreign == 1
    assert past.restored(Known(0, 0, 0)).counts.foreign == 2


AHEAD_MS = CLOCK_MARGIN_MS + 1_000
NAMED = 2
"""The first transaction with a second word that a mark can have."""
SAME_TOPIC = replace(KNOWN, is_marked_topic=True)


def test_halves_that_were_stored_while_the_brokers_clock_was_ahead_are_not_taken_for_others() -> (
    None
):
    late = [half(at, time=SENT + AHEAD_MS, transaction=NAMED) for at in range(2)]
    past = Past(*late)
    past.batch(SENT + 1, op(0, COMMIT, 0, transaction=NAMED), op(1, ROLLBACK, 1, transaction=NAMED))

    restored = past.restored(SAME_TOPIC)

    assert restored.counts.foreign == 0
    assert packed(restored.page) == packed(past.page)


@pytest.mark.parametrize("how", ["committed", "given up", "refused", "asked"])
def test_marks_of_halves_that_kafka_lost_say_nothing_of_others_at_their_offsets(how: str) -> None:
    """New halves counted as settled: acknowledged, committed, never delivered."""
    rules = replace(RULES, check_max=1, reject_transactions=how == "refused")
    lost = Past(*(half(at, transaction=NAMED + 2 * at) for at in range(3)), rules=rules)
    said = [op(at, COMMIT, at, transaction=NAMED + 2 * at) for at in range(3)]
    lost.batch(SENT + 6_001, *(said if how == "committed" else []))
    if how == "given up":
        lost.batch(SENT + 66_002)
    new = [half(0, transaction=NAMED), half(1, transaction=99)]
    lost.written = [*new, *said[:1], *said[2:], op(1, COMMIT, 9, transaction=99)]
    lost.rules = RULES

    restored = lost.restored(replace(SAME_TOPIC, end_offset=2))

    marks = 4 if how == "given up" else 2
    assert (restored.counts.void, restored.counts.foreign) == (marks, 0)
    assert 1 in restored.page.halves.index
    first = decide(restored.page, restored.events, SENT + 66_003, RULES).outcome
    assert (Action.COMMIT, 1) in zip(first.action.tolist(), first.offset.tolist(), strict=True)
    refused = first.detail[first.action == Action.REFUSE_OP].tolist()
    expected = {
        "given up": [RefusedReason.COMMIT_AFTER_DISCARD],
        "refused": [RefusedReason.OP_WITHOUT_HALF],
    }
    assert refused == [] or refused == expected.get(how)


def test_a_page_of_another_half_topic_has_no_void_marks() -> None:
    past = Past(half(0, transaction=NAMED)).batch(SENT, op(0, COMMIT, 0, transaction=NAMED))
    past.written = [half(0, time=SENT + CLOCK_MARGIN_MS + 1, transaction=99)]

    assert past.restored(replace(KNOWN, end_offset=0)).counts.foreign == 1


@pytest.mark.parametrize("was_read", [True, False])
def test_a_half_that_a_relay_delivered_stays_delivered(*, was_read: bool) -> None:
    """Also where no mark says it yet: the first batch judges what was not read."""
    past, delivered = Past(half(0)), op(0, DELIVERED, 7)
    restored = (past.batch(SENT, delivered) if was_read else past.unread(delivered)).restored()
    decision = decide(restored.page, restored.events, SENT, RULES)

    actions = acts_of(decision.outcome)
    assert [act.action for act in actions] == ([] if was_read else [Action.DELIVERED])
    assert decision.page.pending == 0
