"""Batches from Spark's event log, which of them are measured, and their rates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.runs.batches import (
    EventLog,
    MeasuredBatch,
    Steady,
    median_ms,
    steady_part,
    touching,
)

from checkback.protocol.errors import UsageError


def batches(*rows_and_ms: tuple[int, int]) -> list[MeasuredBatch]:
    """Consecutive batches without pauses, from 1970 on."""
    found, at_ms = [], 0
    for number, (rows, took_ms) in enumerate(rows_and_ms):
        found.append(MeasuredBatch(number, at_ms, took_ms, rows))
        at_ms += took_ms
    return found


def rows_per_s(steady: Steady) -> float:
    return steady.rows / ((steady.to_ms - steady.from_ms) / 1_000)


@pytest.mark.parametrize("share", [0.0, 0.25])
def test_the_warm_up_of_one_batch_at_least_is_left_out_and_the_rest_is_the_rate(
    share: float,
) -> None:
    steady = steady_part(batches((100, 9_000), (100, 1_000), (100, 1_000), (100, 2_000)), share)

    assert [batch.batch_id for batch in steady.batches] == [1, 2, 3]
    assert rows_per_s(steady) == 75


def test_a_batch_a_few_records_short_draws_no_other_into_the_warm_up() -> None:
    found = batches((993, 9_000), (1_000, 5_000), (1_000, 1_000), (1_000, 1_000), (7, 500))

    assert steady_part(found, 0.5).rows == 2_000


def test_a_remainder_at_the_end_is_no_measurement() -> None:
    """The remainder of a limit per batch: a few rows that take as long as a hundred thousand."""
    steady = steady_part(batches((100, 900), (100, 1_000), (100, 1_000), (3, 800), (0, 300)), 0.25)

    assert rows_per_s(steady) == 100


def test_a_gap_between_batches_counts() -> None:
    found = [MeasuredBatch(at, from_ms, 1_000, 50) for at, from_ms in enumerate((0, 1_000, 4_000))]

    assert rows_per_s(steady_part(found, 0.3)) == 25


@pytest.mark.parametrize("found", [[], [(100, 1_000)], [(0, 300), (100, 1_000)]])
def test_too_few_batches_are_not_measured(found: list[tuple[int, int]]) -> None:
    with pytest.raises(UsageError, match="too few"):
        steady_part(batches(*found), 0.25)


def test_no_batch_has_no_median() -> None:
    assert median_ms(batches((1, 10), (1, 30), (1, 80))) == 30
    with pytest.raises(ValueError, match="no batch"):
        median_ms([])


def test_a_span_has_the_batches_that_touch_it() -> None:
    found = batches((1, 10), (1, 10), (1, 10), (1, 10))

    assert [batch.batch_id for batch in touching(found, 5, 30)] == [0, 1, 2]


def line(batch_id: int, rows: int) -> str:
    event = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
    progress = {
        "batchId": batch_id,
        "timestamp": "2026-01-01T00:00:01.500Z",
        "durationMs": {"triggerExecution": 250, "addBatch": 200},
        "sources": [{"numInputRows": rows}],
    }
    return json.dumps({"Event": event, "progress": progress})


def test_progress_events_are_batches_and_nothing_else_is(tmp_path: Path) -> None:
    (tmp_path / "local-1").write_text('{"Event":"SparkListenerLogStart"}\n' + line(3, 40) + "\n")

    start_ms = 1_767_225_601_500
    assert EventLog(tmp_path).read() == [MeasuredBatch(3, start_ms, 250, 40)]


def test_a_line_that_is_being_written_is_read_when_it_is_whole(tmp_path: Path) -> None:
    log, file = EventLog(tmp_path), tmp_path / "local-1.inprogress"
    assert log.read() == []
    whole = line(0, 1) + "\n"
    file.write_text(whole + line(1, 2)[:30])
    assert [batch.batch_id for batch in log.read()] == [0]
    file.write_text(whole + line(1, 2) + "\n")

    assert [batch.batch_id for batch in log.read()] == [0, 1]
