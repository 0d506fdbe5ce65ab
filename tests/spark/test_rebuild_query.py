"""History to state by Spark itself: rows of the topics, restored pages, the first batch's state."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from tests.property.model import COMMIT, ROLLBACK, Record
from tests.property.paged import events_of
from tests.unit.state.building import RULES, SENT, Story, half, op

from checkback.checkpoints.pending.status import read_page_statuses
from checkback.checkpoints.spark_files.logs import plan_with_ends
from checkback.checkpoints.spark_files.state_rows import read_state
from checkback.checkpoints.store import CheckpointStore
from checkback.operations.rebuild import rebuild
from checkback.operations.rebuild.first_batch import run_first_batch
from checkback.operations.rebuild.page import Known
from checkback.operations.rebuild.topic_pages import (
    RESTORED_SCHEMA,
    HistorySettings,
    counts_of,
    marks_by_page,
    restore_function,
)
from checkback.protocol.errors import CheckpointError
from checkback.state import Action, Events, Outcome, Page, mark_key, pack_settled
from checkback.streaming.pages.page_function import PageSettings
from checkback.streaming.pages.page_key import PageKeys

PAGE_SIZE = 4
COLUMNS = (
    "kind", "offset", "time_ms", "identity", "detail", "source_offset", "identity_rest",
)  # fmt: skip
NOW = SENT + 3_000


def page_key(page: int) -> int:
    return int.from_bytes(page.to_bytes(8, "little"), "big", signed=True)


def told(records: list[Record], marks: list[bytes]) -> list[dict[str, Any]]:
    """What the topics hold, as the job's groups get it."""
    events = zip(*(column.tolist() for column in columns_of(events_of(records))), strict=True)
    said = [dict(zip(COLUMNS, values, strict=True)) for values in events]
    rows = [row_of(one["offset"] // PAGE_SIZE, **one) for one in said]
    return [*rows, *(row_of(one["page"], blob=one["blob"]) for one in by_page(marks).to_pylist())]


def row_of(page: int, **said: Any) -> dict[str, Any]:
    found = {"page_key": page_key(page), "partition": 0, **dict.fromkeys(COLUMNS, 0), "blob": None}
    return {**found, **said}


def by_page(marks: list[bytes]) -> pa.RecordBatch:
    keys = pa.array([mark_key(0, 0)] * len(marks), pa.binary())
    return marks_by_page(keys, pa.array(marks, pa.binary()), PAGE_SIZE)


def columns_of(events: Events) -> list[NDArray[Any]]:
    return [getattr(events, name) for name in COLUMNS]


def history() -> tuple[list[Record], list[bytes]]:
    """Six halves in two pages, written by a job whose pages were larger; the last op is unread."""
    story = Story()
    halves = [half(offset) for offset in range(6)]
    ops = [op(0, COMMIT, 0), op(5, ROLLBACK, 1)]
    story.batch(SENT + 1_000, *halves)
    story.batch(SENT + 2_000, *ops)
    return [*halves, *ops, op(4, COMMIT, 2)], [pack_settled(story.outcome, 1)]


def restored(spark: SparkSession) -> DataFrame:
    rows = told(*history())
    schema = ",".join(RESTORED_SCHEMA.split(",")[:10])
    settings = HistorySettings(PAGE_SIZE, NOW, RULES, {0: Known(0, 6, 0)})
    frame = spark.createDataFrame(rows, schema)
    return frame.groupBy("page_key", "partition").applyInArrow(
        restore_function(settings), RESTORED_SCHEMA
    )


def test_marks_of_larger_pages_are_spread_over_smaller_ones() -> None:
    _, marks = history()

    found = by_page(marks)

    assert found.column("page").to_pylist() == [0, 1]


def test_what_no_job_wrote_on_the_settled_topic_concerns_no_page() -> None:
    _, marks = history()
    keys = pa.array([None, b"0:0", mark_key(0, 1), mark_key(0, 0)], pa.binary())
    values = pa.array([b"hello", None, *marks, *marks], pa.binary())

    found = marks_by_page(keys, values, PAGE_SIZE)

    assert found.column("page").to_pylist() == [0, 1]


def test_the_first_batch_makes_state_of_history_and_judges_what_is_left(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows, checkpoint = str(tmp_path / "rows"), str(tmp_path / "checkpoint")
    restored(spark).write.parquet(rows)
    counts = counts_of(spark.read.parquet(rows))
    written: list[bytes] = []

    def write_batch(outcomes: DataFrame, batch_id: int) -> None:
        assert batch_id == 0
        written.extend(bytes(row.outcome) for row in outcomes.collect())

    # Without checks: the halves are years old, and would be discarded.
    rules = replace(RULES, check_enabled=False)
    settings = PageSettings(PAGE_SIZE, PageKeys(4))
    run_first_batch(spark, rows, checkpoint, settings, rules, write_batch)

    assert (counts.halves, counts.settled, counts.pending, counts.ops) == (6, 2, 4, 1)
    outcomes = {one.page: one for one in map(Outcome.unpack, written)}
    commits = outcomes[1].offset[outcomes[1].action == Action.COMMIT]
    assert commits.tolist() == [4]
    files = CheckpointStore.of(spark, checkpoint)
    files.replace("offsets/0", plan_with_ends(files.read("offsets/0").decode(), {"half": {"0": 6}}))
    held = read_state(files)
    assert held is not None
    pages = {page.page: page for page in (Page.unpack(one.blob) for one in held.pages)}
    assert pages[0].halves.index.tolist() == [1, 2, 3]
    assert (pages[1].pending, pages[1].settled.verdict.tolist()) == (0, [1, 0, 0, 0])
    told = {one.page: (one.pending, one.oldest_ms) for one in read_page_statuses(files)}
    assert told == {number: (page.pending, page.oldest_ms) for number, page in pages.items()}


def test_a_rebuild_is_unfinished_from_its_beginning_until_the_identity_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = CheckpointStore.of(spark, str(tmp_path / "checkpoint"))
    assert not rebuild.is_unfinished(store)
    store.replace_own(rebuild.FILE, "{}")
    assert rebuild.is_unfinished(store)
    store.replace_own("identity.json", "{}")
    assert not rebuild.is_unfinished(store)


def test_the_position_of_the_plan_is_replaced() -> None:
    ends = {"half": {"0": 5}, "op": {"0": 7}}

    plan = plan_with_ends('v1\n{"batchTimestampMs":1}\n{"logOffset":0}', ends)

    version, metadata, position = plan.split("\n")
    assert (version, metadata) == ("v1", '{"batchTimestampMs":1}')
    assert json.loads(position) == ends


@pytest.mark.parametrize("plan", ["v1\n{}", "v1\n{}\n-", "v1\n{}\n{}\n{}"])
def test_a_plan_of_another_form_is_refused(plan: str) -> None:
    with pytest.raises(CheckpointError, match="form"):
        plan_with_ends(plan, {})
