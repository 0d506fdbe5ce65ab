"""Batches from Spark's event log while Spark still writes it."""

from __future__ import annotations

import json
from pathlib import Path

from checkback.bench.event_log import EventLog, MeasuredBatch


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

    parts = {"triggerExecution": 250, "addBatch": 200}
    start_ms = 1_767_225_601_500
    assert EventLog(tmp_path).read() == [MeasuredBatch(3, start_ms, 250, 40, parts)]


def test_a_line_that_is_being_written_is_read_when_it_is_whole(tmp_path: Path) -> None:
    log, file = EventLog(tmp_path), tmp_path / "local-1.inprogress"
    assert log.read() == []
    whole = line(0, 1) + "\n"
    file.write_text(whole + line(1, 2)[:30])
    assert [batch.batch_id for batch in log.read()] == [0]
    file.write_text(whole + line(1, 2) + "\n")

    assert [batch.batch_id for batch in log.read()] == [0, 1]
