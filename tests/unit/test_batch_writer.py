"""What a batch's writer does after a try that failed, and what it asks of the marker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from tests.deciding import page_outcome
from tests.unit.sink_stage import BARE

from checkback.protocol.errors import BrokerError, FencedError
from checkback.sinks.kafka.transaction.errors import (
    ProducerLostError,
    RejectedOutputError,
    Rejection,
)
from checkback.sinks.kafka.transaction.marker import Marker
from checkback.sinks.partition import writer
from checkback.sinks.partition.rejections import KnownRejections
from checkback.sinks.partition.writer import LOST_TRIES, SLOWEST, BatchWriter
from checkback.sinks.report import BatchReport, report_of
from checkback.sinks.settings import SinkSettings
from checkback.state import Action, Outcome


class Clock:
    """In place of the module time."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s

    time = monotonic


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(writer, "time", made)
    return made


def made(
    number: int = 0,
    *,
    settings: SinkSettings = BARE,
    directory: object = None,
    forwarder: object = None,
) -> BatchWriter:
    nothing: Any = None
    given: Any = (directory, forwarder)
    return BatchWriter(settings, number, nothing, nothing, *given)


def outcomes(rows: int) -> list[Outcome]:
    half = rows // 2
    commits = [(Action.COMMIT, at, 0, at) for at in range(rows)]
    return [page_outcome(0, *commits[:half]), page_outcome(1, *commits[half:])]


def test_a_transaction_is_open_from_its_begin_in_this_try(clock: Clock) -> None:
    one = made()
    assert one._open_ms() == 0

    one._begun_s = clock.now_s
    clock.now_s += 2.5

    assert one._open_ms() == 2_500


@pytest.mark.parametrize("tracks_each_record", [True, False])
@pytest.mark.parametrize("refused", [0, 2])
def test_the_next_batch_is_sent_with_care_where_a_measured_one_was_refused(
    *, tracks_each_record: bool, refused: int
) -> None:
    known: Any = SimpleNamespace(tracks_each_record=tracks_each_record)
    written: Any = SimpleNamespace(counts=Counter(finals_refused=refused))

    assert writer._is_refusing(known, written) == (tracks_each_record and refused > 0)


def test_a_part_that_is_written_forgives_the_losses_before_it_and_keeps_its_report(
    clock: Clock,
) -> None:
    one, begun = made(), []
    one._lost = 2
    producer: Any = SimpleNamespace(
        begin=lambda: begun.append(clock.now_s), commit_part=lambda *_: None
    )
    report = report_of(0, [])
    outputs: Any = SimpleNamespace(report=report, now_ms=7, records_for=lambda *_: [])
    part: Any = SimpleNamespace(outcomes=[], is_last=False, rows_done=3)

    one._write_part(producer, outputs, part, 9)

    assert begun == [one._begun_s] == [clock.now_s]
    assert one._lost == 0
    assert one._in_parts == report
    assert one._in_parts is not report


def test_a_try_counts_on_from_the_parts_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    one, before = made(2), report_of(2, [])
    before.counts["finals"] = 3
    monkeypatch.setattr(BatchWriter, "_open", lambda *_: SimpleNamespace(marker=Marker(10, 0)))

    assert one._try([], 9) == replace(report_of(2, []), skipped=True)
    one._in_parts = before
    assert one._try([], 9) == replace(before, skipped=True)
    assert not before.skipped


@pytest.mark.parametrize(
    ("marker", "is_kept"),
    [(None, True), (Marker(0, 0), True), *((Marker(0, 0, rows_done=n), False) for n in (1, 2))],
)
def test_a_try_after_a_part_sees_what_other_writers_have_written(
    monkeypatch: pytest.MonkeyPatch, marker: Marker | None, *, is_kept: bool
) -> None:
    def producer() -> Any:
        return SimpleNamespace(marker=marker, is_spent=False, client=0, close=lambda: None)

    monkeypatch.setattr(writer, "MarkedProducer", lambda *_: producer())
    one = made()
    kept = one._producer = producer()
    one._last_batch = -1

    assert (one._open(0) is kept) == is_kept


class SlowProducer:
    """A producer that needs a second for a record; its brokers abort old transactions."""

    client, is_spent = 0, False

    def __init__(self, clock: Clock) -> None:
        self.clock, self.sent = clock, 0
        self.marker, self.rows_written = Marker(9, 0), list[int]()

    def begin(self) -> None:
        self.begun_s, self.sent = self.clock.now_s, 0

    def send(self, _: object) -> None:
        self.clock.now_s += 1
        self.sent += 1

    def commit_part(self, batch_id: int, rows_done: int, now_ms: int) -> None:
        if self.clock.now_s - self.begun_s > BARE.transaction_timeout_ms / 1_000:
            raise ProducerLostError("The broker aborted the transaction.")
        self.marker = Marker(batch_id, now_ms, rows_done=rows_done)
        self.rows_written.append(self.sent)

    def commit(self, batch_id: int, now_ms: int) -> None:
        self.commit_part(batch_id + 1, 0, now_ms)


def test_a_transaction_that_outlives_its_timeout_is_written_again_in_smaller_ones(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With bodies of a megabyte 100,000 rows ended the job, with a setting as the remedy."""
    seconds = BARE.transaction_timeout_ms // 1_000
    rows = 10 * seconds
    settings = replace(BARE, transaction_rows_max=100 * seconds)
    one = made(settings=settings, directory=SimpleNamespace(allow_refresh=lambda: None))
    producer = SlowProducer(clock)
    monkeypatch.setattr(BatchWriter, "_open", lambda *_: producer)

    def outputs(_: object, __: object, report: BatchReport, now_ms: int) -> Any:
        def records_for(outcomes: list[Outcome], *_: int) -> Iterator[int]:
            yield from range(sum(len(one.action) for one in outcomes))

        return SimpleNamespace(report=report, now_ms=now_ms, records_for=records_for)

    monkeypatch.setattr(BatchWriter, "_outputs", outputs)

    one.write(outcomes(rows), 9)

    assert sum(producer.rows_written) == rows
    assert max(producer.rows_written) <= seconds
    one.write(outcomes(rows), 10)
    assert sum(producer.rows_written) == 2 * rows, "the next batch begins with small ones"


class Tries:
    """In place of a try: the outcome of each, and what the writer knew at it."""

    def __init__(self, one: BatchWriter, *ends: Exception) -> None:
        self.writer, self.ends = one, list(ends)
        self.seen: list[tuple[int, bool]] = []
        self.arguments: tuple[Any, ...] = ()

    def __call__(self, *arguments: Any) -> BatchReport:
        self.arguments = arguments
        self.seen.append((self.writer._tries, self.writer._known.tracks_each_record))
        if self.ends:
            raise self.ends.pop(0)
        return report_of(self.writer.state_partition, [])


def trying(monkeypatch: pytest.MonkeyPatch, *ends: Exception) -> tuple[BatchWriter, Tries]:
    one = made(4, directory=SimpleNamespace(allow_refresh=lambda: None, close=lambda *_: None))
    tries = Tries(one, *ends)
    monkeypatch.setattr(BatchWriter, "_try", lambda _, *arguments: tries(*arguments))
    return one, tries


def test_a_batch_is_tried_once_where_nothing_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    one, tries = trying(monkeypatch)

    report = one.write([], 9)

    assert tries.seen == [(1, False)]
    assert tries.arguments == ([], 9)
    assert report == report_of(4, [])
    assert not one._has_stumbled


def test_a_producer_that_is_lost_three_times_ends_the_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = [ProducerLostError("Fenced.") for _ in range(LOST_TRIES + 1)]
    one, tries = trying(monkeypatch, *lost)

    with pytest.raises(FencedError):
        one.write([], 9)

    assert [number for number, _ in tries.seen] == [1, 2, 3]


def test_a_producer_that_is_lost_for_being_slow_ends_the_batch_as_too_slow(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    one, _ = trying(monkeypatch, *(ProducerLostError("Fenced.") for _ in range(LOST_TRIES)))
    monkeypatch.setattr(BatchWriter, "_open_ms", lambda _: BARE.transaction_timeout_ms)

    with pytest.raises(BrokerError, match="Batch 9 took longer"):
        one.write([], 9)


def test_years_of_slow_transactions_leave_parts_of_a_bounded_size(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """Each loss divided by ten, down to a row in each transaction."""
    one, _ = trying(monkeypatch, ProducerLostError("Fenced."))
    monkeypatch.setattr(BatchWriter, "_open_ms", lambda _: BARE.transaction_timeout_ms)
    one._slowness = SLOWEST

    one.write([], 9)

    assert one._slowness == SLOWEST


def test_the_next_batch_is_sent_with_care_after_a_second_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, tries = trying(monkeypatch, ProducerLostError("Fenced."))

    stumbled = []
    for batch_id in (9, 10):
        one.write([], batch_id)
        stumbled.append(one._has_stumbled)

    assert stumbled == [True, False]
    assert tries.seen == [(1, False), (2, False), (1, True)]


def test_who_is_wary_stays_so_when_a_producer_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    rejected = ProducerLostError("Aborted.")
    rejected.was_rejected = True
    one, tries = trying(monkeypatch, rejected, ProducerLostError("Fenced."))

    one.write([], 9)

    assert tries.seen == [(1, False), (2, True), (3, True)]
    assert one._has_stumbled


def test_a_batch_is_given_up_after_so_many_rejections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "TRIES", 4)
    learned: list[Any] = []
    monkeypatch.setattr(KnownRejections, "learn", lambda _, *arguments: learned.append(arguments))
    rejections = [Rejection("orders", 0, 10, "too large")]
    one, tries = trying(monkeypatch, *(RejectedOutputError(rejections) for _ in range(9)))

    with pytest.raises(BrokerError, match="rejected batch 9 of state partition 4 4 times"):
        one.write([], 9)

    assert [number for number, _ in tries.seen] == [1, 2, 3, 4]
    assert learned == [(rejections, BARE.topics, one.directory)] * 4


def test_a_producer_is_made_with_the_client_finder_of_the_forwarder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[tuple[Any, ...]] = []

    def make(*arguments: Any) -> Any:
        found.append(arguments)
        return SimpleNamespace(marker=Marker(3, 0), is_spent=False)

    monkeypatch.setattr(writer, "MarkedProducer", make)
    for one in (made(), made(2, forwarder=SimpleNamespace(native="native"))):
        one._open(3)

    assert found == [(BARE, 0, None), (BARE, 2, "native")]


@pytest.mark.parametrize("tracks_each_record", [True, False])
def test_behind_a_slow_commit_another_producer_writes_the_other_parts_with_no_more_care(
    monkeypatch: pytest.MonkeyPatch, *, tracks_each_record: bool
) -> None:
    one, report = made(), report_of(0, [])
    one.settings = replace(BARE, transaction_rows_max=1)
    one._known.tracks_each_record = tracks_each_record
    slow: Any = SimpleNamespace(marker=Marker(3, 0), is_spent=True)
    quick: Any = SimpleNamespace(marker=Marker(3, 0, rows_done=1), is_spent=False)
    producers, outputs = iter([slow, quick]), SimpleNamespace(report=report)
    monkeypatch.setattr(BatchWriter, "_open", lambda *_: next(producers))
    monkeypatch.setattr(BatchWriter, "_outputs", lambda *_: outputs)
    parts: list[Any] = []
    monkeypatch.setattr(BatchWriter, "_write_part", lambda *given: parts.append(given[1:4:2]))

    written = one._try(outcomes(4), 3)

    assert written is report
    assert [(producer, part.rows_done) for producer, part in parts] == [
        (slow, 1), (quick, 2), (quick, 3), (quick, 4),
    ]  # fmt: skip
    assert quick.tracks_records is tracks_each_record
    assert (one._tries, one._lost) == (0, 0)


def test_outputs_flush_the_producer_of_their_try() -> None:
    one, producer = made(), SimpleNamespace(flush=lambda: None)
    given: Any = producer

    found = one._outputs(given, report_of(0, []), 7)

    assert found.flush is producer.flush
