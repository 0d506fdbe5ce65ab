"""Choosing refused records, and what can be sent again."""

from __future__ import annotations

import pytest
from tests.unit.operations.records import NAMES, half, record

from checkback.commands.refused import command, name_of
from checkback.commands.shared.app import execute
from checkback.operations.parked.filter import RecordFilter
from checkback.operations.parked.refused import RefusedRecord, refused_records
from checkback.operations.topics.position import Position
from checkback.operations.topics.scanner import FoundRecord
from checkback.operations.transactions.history import refused_event
from checkback.protocol import properties
from checkback.protocol.errors import UsageError
from checkback.protocol.properties import Headers
from checkback.protocol.records import OperatorFacts, note_headers
from checkback.protocol.refusals import RefusedReason, refusal_facts, refused_headers

MISSING = RefusedReason.REAL_TOPIC_MISSING
FOURTH = Position(0, 4)


def refused(
    reason: RefusedReason = MISSING,
    *,
    at: Position = FOURTH,
    origin: tuple[str, int, int] = (NAMES.half, 1, 7),
    brought: Headers | None = None,
) -> FoundRecord:
    given = half("u", at=Position(1, 7)).headers + (brought or [])
    return record(NAMES.refused, refused_headers(given, reason, *origin), at=at)


def only(found: FoundRecord) -> RefusedRecord:
    [one] = refused_records([found])
    return one


def note(found: FoundRecord) -> FoundRecord:
    facts = OperatorFacts("ann", "made it", 1)
    headers = note_headers(found.headers, properties.RESEND, str(found.at), "orders:0:3", facts)
    return record(NAMES.refused, headers, at=Position(0, 9), value=None)


def test_of_names_of_megabytes_lists_have_the_beginning() -> None:
    long = half("u" * 3_000_000, group="g" * 3_000_000, topic="t" * 3_000_000, at=Position(1, 7))
    reason = RefusedReason.HALF_NAME_TOO_LONG
    found = only(record(NAMES.refused, refused_headers(long.headers, reason, NAMES.half, 1, 7)))

    assert (found.transaction_id, found.group, found.real_topic) == (
        "u" * 1_024, "g" * 1_024, "t" * 1_024,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "is_meant"),
    [
        (RecordFilter(), True),
        (RecordFilter(name="u"), True),
        (RecordFilter(name="0:4"), True),
        (RecordFilter(name="1:7"), False),
        (RecordFilter(group="g", topic="orders", reason=MISSING.name), True),
        (RecordFilter(group="h"), False),
        (RecordFilter(topic="bills"), False),
        (RecordFilter(reason="FINAL_TOO_LARGE"), False),
        (RecordFilter(until_ms=1_000, from_ms=1_000), True),
        (RecordFilter(until_ms=999), False),
        (RecordFilter(from_ms=1_001), False),
    ],
)
def test_a_filter_takes_what_fits_all_of_it(wanted: RecordFilter, is_meant: bool) -> None:
    assert wanted.takes(only(refused())) is is_meant


def test_a_note_says_of_its_record_that_it_was_sent() -> None:
    first, second = refused(at=Position(0, 4)), refused(at=Position(0, 5))

    found = refused_records([note(first), second, first])

    assert [(str(one.record.at), one.resent_to) for one in found] == [
        ("0:4", "orders:0:3"), ("0:5", ""),
    ]  # fmt: skip
    assert refused_event(note(first)).kind == "resent"


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (refused(), ""),
        (refused(RefusedReason.FINAL_TOO_LARGE), ""),
        (refused(RefusedReason.OP_WITHOUT_HALF, origin=(NAMES.op, 1, 7)), "no half message"),
        (refused(RefusedReason.TRANSACTIONS_REJECTED), "does not say that it was committed"),
        (refused(RefusedReason.NOT_A_HALF), "does not say that it was committed"),
        (refused(RefusedReason.RECORD_NOT_MADE), ""),
        (refused(RefusedReason.REAL_TOPIC_UNAVAILABLE), ""),
        (refused(RefusedReason.DISCARD_REJECTED), "does not say that it was committed"),
        (record(NAMES.refused, []), "not known"),
    ],
)
def test_only_finals_that_were_committed_can_be_sent(found: FoundRecord, says: str) -> None:
    obstacle = only(found).obstacle(NAMES.half)

    assert says in obstacle
    assert bool(obstacle) is bool(says)


def test_a_half_can_not_say_itself_why_it_was_refused() -> None:
    brought = [
        ("__checkback.errors.reason", b"REAL_TOPIC_MISSING"),
        ("__checkback.errors.topic", NAMES.half.encode()),
        ("__checkback.resend.to", b"orders:0:3"),
        ("__checkback.resend.from", b"0:5"),
    ]
    hostile = refused(RefusedReason.NOT_A_HALF, origin=(NAMES.half, 3, 8), brought=brought)
    healthy = refused(at=Position(0, 5))

    found = refused_records([hostile, healthy])

    assert [one.reason for one in found] == ["NOT_A_HALF", "REAL_TOPIC_MISSING"]
    assert [one.resent_to for one in found] == ["", ""]
    assert found[0].origin == (NAMES.half, 3, 8)
    assert refused_event(hostile).facts["reason"] == "NOT_A_HALF"
    assert refusal_facts(hostile.headers).original[-4:] == brought


def test_the_command_has_its_verbs_and_wants_to_know_which_records() -> None:
    assert set(command.commands) == {"list", "show", "resend"}
    for chosen in ([], ["--all", "--group", "g"], ["0:4", "--all"]):
        shared = ["--why", "w", "--bootstrap-servers", "none:1"]
        assert execute(command, ["resend", *chosen, *shared]) == UsageError.exit_code


def test_a_record_that_is_no_half_is_named_by_why_it_was_refused() -> None:
    headers = refused_headers([], RefusedReason.NOT_A_HALF, NAMES.half, 1, 7)
    one = only(record(NAMES.refused, headers, at=FOURTH))

    assert name_of(one) == "0:4 (NOT_A_HALF)"
    assert name_of(only(refused())) == "0:4 (u, group g)"
