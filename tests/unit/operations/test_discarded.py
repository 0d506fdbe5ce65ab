"""Choosing discarded records, and resuming them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError
from tests.unit.operations.records import NAMES, discarded, half, record

from checkback.operations.parked import noted_transaction
from checkback.operations.parked.discarded import DiscardedHalf
from checkback.operations.parked.filter import RecordFilter
from checkback.operations.parked.resume import chosen_halves, resume
from checkback.operations.topics.position import Position
from checkback.operations.topics.scanner import FoundRecord
from checkback.protocol import properties, records
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import PrerequisiteError
from checkback.protocol.refusals import RefusedReason, refused_headers

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
        (RecordFilter(until_ms=1_000, from_ms=1_000), True),
        (RecordFilter(until_ms=999), False),
        (RecordFilter(from_ms=1_001), False),
    ],
)
def test_a_filter_takes_what_fits_all_of_it(wanted: RecordFilter, is_meant: bool) -> None:
    assert wanted.takes(given_up()) is is_meant


def test_a_position_chooses_no_record_of_somebody_whose_transaction_id_looks_like_one() -> None:
    """Any text is a transaction id: one resumed two records, another sent a stranger's final."""
    strangers = DiscardedHalf(discarded(half("0:4", at=Position(1, 3)), at=Position(0, 2)))

    assert not RecordFilter(name="0:4").takes(strangers)
    assert RecordFilter(name="0:2").takes(strangers)
    assert RecordFilter(name="0:4").takes(given_up())


class Scanned:
    """A scanner of topics that have these records."""

    def __init__(self, **topics: list[FoundRecord]) -> None:
        self._topics = {getattr(NAMES, name): found for name, found in topics.items()}

    def scan(self, topic: str, from_ms: int = 0) -> Iterator[FoundRecord]:
        return (one for one in self._topics.get(topic, []) if one.time_ms >= from_ms)

    def partitions(self, _: str) -> list[int]:
        return [0, 1]


class Transaction:
    """A transactional producer whose brokers store at a time of their own, and reject one body."""

    def __init__(self, stored_at_ms: float, rejects: bytes | None) -> None:
        self.steps: list[str] = []
        self._stored_at_ms, self._rejects = round(stored_at_ms), rejects

    def begin_transaction(self) -> None:
        self.steps.append("begin")

    def produce(self, *, value: bytes | None, on_delivery: Any = None, **_: Any) -> None:
        self.steps.append("half" if on_delivery else "note")
        rejected = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE) if value == self._rejects else None
        stored = TIMESTAMP_LOG_APPEND_TIME, self._stored_at_ms
        message = SimpleNamespace(partition=lambda: 1, offset=lambda: 20, timestamp=lambda: stored)
        if on_delivery is not None:
            on_delivery(rejected, message)

    def flush(self, _: float) -> None:
        pass

    def commit_transaction(self, _: float) -> None:
        self.steps.append("commit")

    def abort_transaction(self, _: float) -> None:
        self.steps.append("abort")

    def purge(self) -> None:
        pass


def opened_by(
    monkeypatch: pytest.MonkeyPatch, stored_at_ms: float = 1, rejects: bytes | None = b"none"
) -> list[Transaction]:
    """Return the producers that a resumption opens from now on."""
    opened: list[Transaction] = []

    def opening(*_: object) -> Transaction:
        opened.append(Transaction(stored_at_ms, rejects))
        return opened[-1]

    monkeypatch.setattr(noted_transaction, "open_producer", opening)
    return opened


@pytest.mark.parametrize(
    ("reason", "resumed_to"),
    [
        # Nobody could resume it again: it stood there as resumed, and had no verdict.
        (RefusedReason.ADMIN_NEEDED, ""),
        (RefusedReason.BORN_TIME_WRONG, ""),
        (RefusedReason.TRANSACTIONS_REJECTED, ""),
        # Committed; `refused resend` is for these.
        (RefusedReason.REAL_TOPIC_MISSING, "1:20"),
        (RefusedReason.FINAL_TOO_LARGE, "1:20"),
    ],
)
def test_whose_new_half_was_not_taken_was_not_resumed(
    reason: RefusedReason, resumed_to: str
) -> None:
    old = discarded(half("a", at=Position(1, 7)), at=Position(0, 4))
    new = half("a", at=Position(1, 20))
    about = records.note_headers(old.headers, properties.RESUME, "0:4", "1:20", FACTS)
    note = record(NAMES.discarded, about, at=Position(0, 6), value=None, time_ms=5_000)
    headers = refused_headers(new.headers, reason, NAMES.half, 1, 20)
    refused = record(NAMES.refused, headers, time_ms=6_000)
    scanner: Any = Scanned(discarded=[old, note], refused=[refused])

    [found] = chosen_halves(scanner, NAMES, RecordFilter())

    assert found.resumed_to == resumed_to


def test_what_a_wrong_clock_signs_is_not_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = opened_by(monkeypatch, stored_at_ms=time.time() * 1_000 + 400_000)
    secret = "secret-of-operators"  # noqa: S105 - of nobody
    settings = Settings(
        topic_prefix="t-", bootstrap_servers="b:1", access_key="operators", secret_key=secret
    )
    scanner: Any = Scanned(discarded=[given_up().record])

    with pytest.raises(PrerequisiteError, match="clock of this machine"):
        resume(scanner, settings, RecordFilter(), FACTS, is_certain=True)

    assert [one.steps for one in opened] == [["begin", "half", "abort"]]


def test_one_half_that_the_brokers_reject_keeps_no_other_from_being_resumed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All of a hundred failed with it, at each try, and nothing said which it was."""
    opened = opened_by(monkeypatch, rejects=b"large")
    large = replace(discarded(half("b", at=Position(1, 8)), at=Position(0, 5)), value=b"large")
    kept = [
        discarded(half("a", at=Position(1, 7)), at=Position(0, 4)),
        large,
        discarded(half("c", at=Position(1, 9)), at=Position(0, 6)),
    ]
    scanner: Any = Scanned(discarded=kept)
    settings = Settings(topic_prefix="t-", bootstrap_servers="b:1")

    report = resume(scanner, settings, RecordFilter(), FACTS, is_certain=True)

    assert [str(one.parked.record.at) for one in report.done] == ["0:4", "0:6"]
    [stuck] = report.stuck
    assert (str(stuck.parked.record.at), "too large" in stuck.obstacle) == ("0:5", True)
    assert [one.steps.count("commit") for one in opened] == [0, 1, 1]


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
