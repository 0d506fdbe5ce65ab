"""Choosing discarded records, and resuming them."""

from __future__ import annotations

import pytest
from tests.unit.operations.records import NAMES, discarded, half, record

from checkback.operations.discarded import DiscardedHalf, discarded_halves
from checkback.operations.positions import Position
from checkback.operations.record_filter import RecordFilter
from checkback.protocol import properties, records

FACTS = records.OperatorFacts("ann", "the bank was down", 42)


def given_up() -> DiscardedHalf:
    return DiscardedHalf(discarded(half("u", at=Position(1, 7)), at=Position(0, 4)))


@pytest.mark.parametrize(
    ("wanted", "is_meant"),
    [
        (RecordFilter(), True),
        (RecordFilter(name="u"), True),
        (RecordFilter(name="0:4"), True),
        (RecordFilter(name="1:7"), False),
        (RecordFilter(group="g", topic="orders", reason="check limit"), True),
        (RecordFilter(group="h"), False),
        (RecordFilter(topic="bills"), False),
        (RecordFilter(reason="expired"), False),
        (RecordFilter(until_ms=1_000), True),
        (RecordFilter(until_ms=999), False),
    ],
)
def test_a_filter_takes_what_fits_all_of_it(wanted: RecordFilter, is_meant: bool) -> None:
    assert wanted.takes(given_up()) is is_meant


def test_a_note_says_of_its_half_that_it_was_resumed() -> None:
    first = discarded(half("a", at=Position(1, 7)), at=Position(0, 4))
    second = discarded(half("b", at=Position(1, 8)), at=Position(0, 5))
    headers = records.note_headers(first.headers, properties.RESUME, "0:4", "1:20", FACTS)
    note = record(NAMES.discarded, headers, at=Position(0, 6), value=None)

    found = discarded_halves([note, second, first])

    assert [(one.transaction_id, one.resumed_to) for one in found] == [("a", "1:20"), ("b", "")]


def test_a_resumed_half_begins_at_zero_and_says_from_where() -> None:
    headers = records.resumed_half_headers(given_up().record.headers, "0:4", FACTS)

    told = dict(headers)
    assert tuple(name for name, _ in headers[:5]) == properties.HALF_PROTOCOL_ORDER
    assert len(told) == len(headers)
    assert told["UNIQ_KEY"] == b"u"
    assert told["a"] == b"b"
    assert told[properties.RESUME.source] == b"0:4"
    assert told[properties.RESUME.operator] == b"ann"
    gone = {"TRANSACTION_CHECK_TIMES", "TRAN_PREPARED_QUEUE_OFFSET", "TRAN_HALF_QUEUE_ID"}
    assert not gone & told.keys()
    assert properties.DISCARDED_REASON not in told


def test_a_second_resumption_tells_of_the_last_one_only() -> None:
    once = records.resumed_half_headers(given_up().record.headers, "0:4", FACTS)
    again = records.discarded_headers(once, 1, 20, 3, "check limit")

    twice = records.resumed_half_headers(again, "0:9", FACTS)

    assert [value for name, value in twice if name == properties.RESUME.source] == [b"0:9"]


def test_the_final_of_a_resumed_half_is_that_of_any_other() -> None:
    plain = half("u", at=Position(1, 7)).headers
    resumed = records.resumed_half_headers(given_up().record.headers, "0:4", FACTS)

    assert records.final_parts(resumed, 1, 20).headers == records.final_parts(plain, 1, 20).headers
