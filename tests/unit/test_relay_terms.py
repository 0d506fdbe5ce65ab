"""What a batch goes by while relays take the ops (rules 7 to 10, docs/decisions/relay.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.unit.state.building import RULES

from checkback.checkpoints.own_files.batch_terms import BatchTerms, OpRange, TermsNote
from checkback.checkpoints.own_files.relay_terms import RelaySpan, RelayTerms, Spans
from checkback.protocol.decided import RelayMark
from checkback.protocol.errors import FencedError
from checkback.protocol.topics import TopicNames
from checkback.state import NOTHING_READ
from checkback.streaming.batch.terms import TaskTerms
from checkback.streaming.relay.terms import MARK_STEP_MS, RelayTermsOfRun

NAMES = TopicNames()
OPEN = RelaySpan(100, 50)
CLOSED = OPEN.closed(140, 33)
AGAIN = RelaySpan(200, 90)


class Relayed:
    """The reading of partition 0 over several batches; marks stand where a test puts them."""

    def __init__(self, *spans: RelaySpan) -> None:
        self.marks: dict[int, RelayMark] = {}
        self.looked: list[Mapping[int, int]] = []
        self.terms: Mapping[int, RelayTerms] = {}
        self.reading = RelayTermsOfRun(NAMES, {0: spans}, self._newest)

    def batch(self, decided: int) -> RelayTerms:
        ends = {NAMES.decided: {0: decided}}
        self.terms = self.reading.of_batch(ends, self.terms)
        return self.terms[0]

    def mark(self, at: int, floor: int, until_ms: int, halves_from: int = 50) -> None:
        self.marks[at] = RelayMark(0, floor, until_ms, 100, halves_from)

    def _newest(self, ends: Mapping[int, int]) -> dict[int, RelayMark]:
        self.looked.append(ends)
        before = [at for at in self.marks if at < ends[0]]
        return {0: self.marks[max(before)]} if before else {}


def test_before_the_first_mark_the_floor_is_where_the_relays_begin_and_no_time_is_known() -> None:
    relayed = Relayed(OPEN)

    assert relayed.batch(1) == RelayTerms((OPEN,), 50, None)
    relayed.mark(5, 50, 0)  # a relay that does not know the brokers' clock yet
    assert relayed.batch(6) == RelayTerms((OPEN,), 50, None)


def test_a_batch_goes_by_the_newest_mark_that_it_has_read() -> None:
    relayed = Relayed(OPEN)
    relayed.mark(5, 60, 10_000)
    relayed.mark(9, 70, 20_000)

    assert relayed.batch(9) == RelayTerms((OPEN,), 60, 10_000)
    assert relayed.batch(10) == RelayTerms((OPEN,), 70, 20_000)
    assert relayed.batch(10) == RelayTerms((OPEN,), 70, 20_000)
    assert relayed.looked == [{0: 9}, {0: 10}]


def test_a_mark_that_is_hardly_younger_changes_no_terms() -> None:
    relayed = Relayed(OPEN)
    relayed.mark(5, 60, 10_000)
    first = relayed.batch(6)
    relayed.mark(7, 61, 10_000 + MARK_STEP_MS - 1)

    assert relayed.batch(8) == first


def test_the_marks_of_an_earlier_span_say_nothing_of_a_later_one() -> None:
    relayed = Relayed(CLOSED, AGAIN)
    relayed.mark(5, 60, 10_000)

    assert relayed.batch(6) == RelayTerms((CLOSED, AGAIN), 90, None)


def test_the_relay_has_the_ops_until_the_record_that_closes_it_is_read() -> None:
    relayed = Relayed(CLOSED)
    relayed.mark(5, 60, 10_000)

    assert relayed.batch(33) == RelayTerms((CLOSED,), 60, 10_000)
    assert relayed.batch(34) == RelayTerms((CLOSED,))


def test_ops_that_a_replaced_job_planned_before_they_were_given_back_end_the_job() -> None:
    reading = Relayed(CLOSED).reading
    for ops, decided in ((140, 33), (141, 34)):
        assert reading.next_terms({NAMES.op: {0: ops}, NAMES.decided: {0: decided}}, {}, {})

    with pytest.raises(FencedError, match="Another job has planned"):
        reading.next_terms({NAMES.op: {0: 141}, NAMES.decided: {0: 33}}, {}, {})


def test_what_relays_read_hides_nothing_from_the_job() -> None:
    relayed = Relayed(OPEN)
    relayed.batch(1)
    ends = {NAMES.half: {0: 7, 1: 7}, NAMES.op: {0: 3, 1: 3}, NAMES.decided: {0: 1, 1: 1}}

    judged = relayed.reading.ends_of_job(ends, relayed.terms)

    assert judged == {NAMES.half: {0: 7, 1: 7}, NAMES.op: {1: 3}}


@pytest.mark.parametrize("spans", [{}, {0: (OPEN,), 2: (CLOSED, AGAIN)}])
def test_a_note_and_a_task_have_what_was_decided(spans: Spans) -> None:
    relay = {at: RelayTerms(found, 77, 1_000) for at, found in spans.items()}
    note = TermsNote(1, BatchTerms(RULES, relay=relay))
    assert TermsNote.from_json(note.to_json()) == note
    assert ("relay" in note.to_json()) == bool(relay)

    text = TaskTerms(RULES, 5_000, relay=relay).to_property({1: OpRange(3, 50)})
    task: Any = TaskTerms.from_property(text)

    assert task == TaskTerms(RULES, 5_000, relay=relay)
    top = 2**63 - 1
    wanted = f"0:{top}:100:{top},3:50,0:{top}:100:140:200:{top}" if spans else f"0:{top},3:50"
    assert text.split("|")[1] == wanted


def test_time_goes_on_by_the_marks_where_relays_take_the_ops() -> None:
    relay = {
        0: RelayTerms((OPEN,), 50, 4_000),
        1: RelayTerms((OPEN,), 50, None),
        2: RelayTerms((CLOSED,)),
        3: RelayTerms((OPEN,), 50, 9_000),
    }
    terms = TaskTerms(RULES, 5_000, relay=relay)

    found = [terms.read_until_of(partition) for partition in range(5)]
    assert found == [4_000, NOTHING_READ, 5_000, 5_000, 5_000]
    assert [terms.waits_for_mark(at) for at in range(5)] == [True, True, False, True, False]
