"""The pipeline's metrics, filled from reports, Spark's progress and looks at groups."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from checkback.metrics.instruments import COUNTED, Instruments
from checkback.protocol.configuration import Settings
from checkback.sinks.report import BatchReport, PageStatus, summed
from checkback.state.formats.outcome import FINISH_NUMBERS
from checkback.streaming.reports.job_metrics import JobMetrics, SilentGroups, pending_bound_ms
from checkback.streaming.reports.progress import Progress
from checkback.streaming.reports.stalls import Stall
from checkback.streaming.reports.unread import Unread

SETTINGS = Settings(check_interval_ms=10_000, progress_interval_ms=1_000)


class Story:
    """Metrics over a progress that the test fills, with a clock that it sets."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.progress = Progress()
        self.fill = Instruments()
        self.metrics = JobMetrics(self.fill, SETTINGS, self.progress, lambda: self.now_ms)

    def value(self, name: str, **labels: str) -> Any:
        return self.fill.registry.get_sample_value(f"checkback_{name}", labels)

    def batch(self, *reports: BatchReport) -> None:
        total = summed(reports)
        self.progress.add(0, total)
        self.metrics.add_batch(total, 0.3)


SPARK_PROGRESS = {
    "sources": [],
    "durationMs": {"addBatch": 250, "walCommit": 20, "triggerExecution": 300, "new": 1},
}


def test_a_batch_is_counted_by_what_its_tasks_report() -> None:
    story = Story()
    finished = [0] * FINISH_NUMBERS
    finished[0], finished[-1] = 7, 2_500
    report = BatchReport(
        0,
        Counter(halves=9, commits=5, rollbacks=2, finals=4, refusals=1, native_fallbacks=1),
        Counter(orders=2, billing=1),
        Counter(nobody=4),
        Counter(REAL_TOPIC_MISSING=1, OP_WITHOUT_HALF=1),
        Counter(expired=3),
        finished,
    )
    story.batch(report, report)

    assert story.value("commit_messages_total") == 10
    assert story.value("rollback_messages_total") == 4
    assert story.value("final_messages_total") == 8
    assert story.value("native_fallbacks_total") == 2
    assert story.value("records_read_total", kind="halves") == 18
    assert story.value("records_read_total", kind="unknown_ops") == 0
    assert story.value("checks_total", outcome="sent") == 6
    assert story.value("checks_total", outcome="undelivered") == 8
    assert story.value("refused_total", reason="REAL_TOPIC_MISSING") == 2
    assert story.value("discarded_total", reason="expired") == 6
    assert story.value("discarded_total", reason="check_limit") == 0
    assert story.value("batches_total") == 1
    assert story.value("batch_write_seconds_count") == 1
    assert story.value("last_batch_timestamp_seconds") == 1_000
    assert story.value(f"{COUNTED.removeprefix('checkback_')}_count") == 14
    assert story.value(f"{COUNTED.removeprefix('checkback_')}_sum") == 5


def test_what_is_pending_is_no_number_until_the_checkpoint_was_read() -> None:
    story = Story()
    before = story.value("half_messages")
    story.progress.begin_with(
        [
            PageStatus(0, 0, 9, 1, 0, state_bytes=900),
            PageStatus(1, 0, 2, 970_000, 0, state_bytes=50),
            PageStatus(1, 1, 0, -1, 0, state_bytes=70),
        ]
    )
    story.batch(BatchReport(0, pages=[PageStatus(0, 0, 5, 940_000, 1, state_bytes=100)]))

    assert math.isnan(before)
    assert story.value("half_messages") == 7
    assert story.value("check_backlog") == 1
    assert story.value("oldest_pending_age_seconds") == 60
    assert (story.value("state_rows"), story.value("state_bytes")) == (3, 220)


def test_nothing_pending_is_of_no_age_and_a_row_that_goes_is_gone() -> None:
    story = Story()
    story.progress.begin_with([PageStatus(0, 0, 1, 990_000, 0, state_bytes=10)])
    story.batch(BatchReport(0, pages=[PageStatus(0, 0, 0, -1, 0, state_bytes=0)]))

    assert story.value("oldest_pending_age_seconds") == 0
    assert (story.value("state_rows"), story.value("state_bytes")) == (0, 0)


def test_what_is_unread_is_by_kind_of_topic() -> None:
    story, names = Story(), SETTINGS.topics
    story.metrics.take_unread([])
    assert math.isnan(story.value("lag_records", topic="half")), "nobody knows before a look"
    story.metrics.take_unread([Unread(names.half, 8, 75, 70), Unread(names.op, 0)])

    assert story.value("lag_records", topic="half") == 8
    assert story.value("oldest_unread_age_seconds", topic="half") == 75
    assert story.value("unread_still_seconds", topic="half") == 70
    assert story.value("lag_records", topic="op") == 0
    assert story.value("lag_records", topic="feedback") == 0, "the alert sums all of them"


def test_the_time_for_which_an_idle_batch_is_held_is_no_work() -> None:
    story = Story()
    story.metrics.take_spark_progress(SPARK_PROGRESS, held_ms=240)

    assert story.value("batch_stage_seconds", stage="add_batch") == 0.01
    assert story.value("batch_stage_seconds", stage="trigger_execution") == 0.06
    assert story.value("batch_stage_seconds", stage="wal_commit") == 0.02


def test_a_silent_group_stays_until_it_answers() -> None:
    story = Story()
    story.metrics.take_groups({"orders", "billing"}, ["billing"], ["nobody"])
    both = story.value("groups_without_members")
    story.metrics.take_groups(set(), [], [])
    still = story.value("groups_without_members")
    story.metrics.take_groups({"billing"}, [], [])

    assert (both, still, story.value("groups_without_members")) == (2, 2, 1)


def test_a_silent_group_that_nobody_asks_any_more_is_forgotten() -> None:
    groups = SilentGroups(keep_ms=100)

    assert groups.take({"a"}, {"a"}, 0) == 1
    assert groups.take(set(), set(), 100) == 1
    assert groups.take(set(), set(), 101) == 0


def test_the_bound_is_when_checks_are_used_up_and_at_most_the_retention() -> None:
    checked = Settings(transaction_timeout_ms=6_000, check_max=15, check_interval_ms=60_000)
    short = Settings(half_retention_ms=5_000)

    assert pending_bound_ms(checked) == 906_000
    assert pending_bound_ms(short) == 5_000


def test_partitions_that_stand_still_are_counted_until_they_move() -> None:
    story = Story()
    names = SETTINGS.topics

    story.metrics.take_stalls(
        [Stall(names.op, 0, 7, 3, 61.0, 42, "loader"), Stall(names.op, 3, 9, 1, 12.0)]
    )
    standing = story.value("stalled_partitions", topic="op")
    first_s = story.value("stall_seconds", topic="op", partition="0", producer_id="42")
    second_s = story.value("stall_seconds", topic="op", partition="3", producer_id="-1")
    story.metrics.take_stalls([Stall(names.op, 3, 9, 1, 22.0)])
    moved_s = story.value("stall_seconds", topic="op", partition="0", producer_id="42")
    story.metrics.take_stalls([])

    assert (standing, first_s, second_s, moved_s) == (2, 61.0, 12.0, None)
    assert story.value("stalled_partitions", topic="half") == 0
    assert story.value("stalled_partitions", topic="op") == 0
    assert story.value("stall_seconds", topic="op", partition="3", producer_id="-1") is None
