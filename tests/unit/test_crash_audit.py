"""The crash tests' audit detects each kind of error."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from tests.crash.audit import audit_at_end, audit_so_far, unsettled
from tests.crash.cases import POINTS, RELAY, RELAY_POINTS, random_cases, random_relay_cases
from tests.crash.truth import Evidence, Fate, Final, Position, Transaction, TrueMark

from checkback.state.formats.settled_marks import Mark as Kind
from checkback.state.formats.settled_marks import SettledMarks

COMMITTED, ROLLED_BACK, SILENT, ASKED = (0, 0), (0, 1), (0, 2), (0, 3)
TRUTH = {
    COMMITTED: Transaction(COMMITTED, b"a", "orders", Fate.COMMITTED),
    ROLLED_BACK: Transaction(ROLLED_BACK, b"b", "orders", Fate.ROLLED_BACK),
    SILENT: Transaction(SILENT, b"c", "orders", Fate.SILENT),
    ASKED: Transaction(ASKED, b"d", "orders", Fate.FORGOTTEN_COMMIT),
}


def marks(batch_id: int, *told: tuple[Position, Kind, int]) -> TrueMark:
    offset = np.array([one[0][1] for one in told], np.int64)
    kind = np.array([one[1] for one in told], np.uint8)
    times = np.array([one[2] for one in told], np.uint16)
    rest = np.zeros(len(offset), np.uint32)
    return TrueMark(0, SettledMarks(batch_id, 0, 0, 1_000, offset, kind, times, rest))


def sound() -> Evidence:
    return Evidence(
        finals=[Final("orders", 0, 0, b"a", COMMITTED), Final("orders", 0, 1, b"d", ASKED)],
        marks=[
            marks(1, (COMMITTED, Kind.COMMIT, 0), (ROLLED_BACK, Kind.ROLLBACK, 0)),
            marks(2, (SILENT, Kind.ASKED, 1), (ASKED, Kind.ASKED, 1)),
            marks(3, (SILENT, Kind.DISCARD_CHECK_LIMIT, 1), (ASKED, Kind.COMMIT, 0)),
        ],
        checks=[(SILENT, 1), (ASKED, 1)],
        discarded=[SILENT],
    )


def test_what_is_sound_passes() -> None:
    assert audit_at_end(TRUTH, sound()) == []
    assert unsettled(TRUTH, sound()) == []


@pytest.mark.parametrize(
    ("column", "finding"),
    [("finals", "final 2 times"), ("checks", "check request 2 times"),
     ("discarded", "discarded 2 times"), ("marks", "mark of half and batch 2 times")],
)  # fmt: skip
def test_what_is_there_twice_is_found_at_once(column: str, finding: str) -> None:
    seen = sound()
    getattr(seen, column).append(getattr(seen, column)[0])

    assert any(one.startswith(finding) for one in audit_so_far(TRUTH, seen))


@pytest.mark.parametrize(
    ("column", "finding"),
    [("finals", "committed half without a final"), ("checks", "check request and settled marks"),
     ("discarded", "never ended and not discarded"), ("marks", "final and settled marks")],
)  # fmt: skip
def test_what_is_missing_is_found_at_the_end(column: str, finding: str) -> None:
    seen = sound()
    getattr(seen, column).pop(0)

    assert audit_so_far(TRUTH, seen) == []
    assert any(one.startswith(finding) for one in audit_at_end(TRUTH, seen))


def test_finals_that_nobody_committed_or_that_differ_are_found() -> None:
    seen = sound()
    seen.finals.append(Final("orders", 0, 2, b"b", ROLLED_BACK))
    seen.finals[0] = Final("orders", 0, 0, b"x", COMMITTED)

    found = audit_so_far(TRUTH, seen)

    assert [one.partition(":")[0] for one in found] == [
        "final is not its half", "final without a commit",
    ]  # fmt: skip


def test_finals_out_of_order_are_found() -> None:
    seen = sound()
    seen.finals = [Final("orders", 0, 1, b"a", COMMITTED), Final("orders", 0, 0, b"d", ASKED)]

    assert [one.partition(":")[0] for one in audit_at_end(TRUTH, seen)] == ["out of order"]


def test_finals_behind_later_ones_of_their_key_are_found() -> None:
    truth = {
        at: Transaction(at, b"a", "orders", Fate.COMMITTED, b"k") for at in (COMMITTED, ROLLED_BACK)
    }
    later, earlier = (
        Final("orders", 0, at, b"a", half) for at, half in enumerate((ROLLED_BACK, COMMITTED))
    )

    [found] = audit_so_far(truth, Evidence(finals=[later, earlier]))
    assert found.startswith("behind a later one of its key")


def test_what_a_relay_delivered_is_settled_and_final() -> None:
    seen = sound()
    seen.marks[0] = marks(1, (COMMITTED, Kind.DELIVERED, 0), (ROLLED_BACK, Kind.ROLLBACK, 0))

    assert audit_at_end(TRUTH, seen) == []
    assert unsettled(TRUTH, seen) == []


def test_an_answer_that_came_after_the_discard_is_no_loss() -> None:
    seen = sound()
    seen.finals.pop()
    seen.discarded.append(ASKED)
    seen.marks[-1] = marks(
        3, (SILENT, Kind.DISCARD_CHECK_LIMIT, 1), (ASKED, Kind.DISCARD_CHECK_LIMIT, 1)
    )

    assert audit_at_end(TRUTH, seen) != []
    seen.refused.append(("COMMIT_AFTER_DISCARD", "d"))
    assert audit_at_end(TRUTH, seen) == []


def test_a_seed_gives_the_same_cases_again_and_reaches_every_point() -> None:
    cases = list(islice(random_cases(7), 500))

    assert cases == list(islice(random_cases(7), 500))
    assert {case.point for case in cases} == set(POINTS)
    with_relays = list(islice(random_relay_cases(7), 500))
    assert {case.point for case in with_relays} >= {RELAY + point for point in RELAY_POINTS}
