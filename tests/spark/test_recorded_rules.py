"""Which rules a checkpoint has recorded, and from when they hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.unit.state.building import RULES

from checkback.checkpoints.rules import FILES_KEPT, read_rules, record_rules
from checkback.checkpoints.store import CheckpointStore
from checkback.protocol.errors import CheckpointError

OTHER, OLDER_JOBS = replace(RULES, check_max=9), replace(RULES, check_max=5)
PLANNED_MS = 5_000_000


@pytest.fixture
def store(spark: SparkSession, tmp_path: Path) -> CheckpointStore:
    return CheckpointStore.of(spark, str(tmp_path / "checkpoint"))


def plan(store: CheckpointStore, batch: int, planned_ms: int) -> None:
    text = f'v1\n{{"batchTimestampMs":{planned_ms},"conf":{{}}}}\n-'
    store.replace(f"offsets/{batch}", text)


def test_rules_are_recorded_from_when_they_hold(store: CheckpointStore) -> None:
    record_rules(store, 1, 1_000, RULES)
    record_rules(store, 2, 1_500, RULES)

    history = record_rules(store, 4, 2_000, OTHER)

    assert history.at(1_999) == RULES
    assert history.at(2_000) == OTHER
    assert len(history.entries) == 2
    assert read_rules(store) == history


def test_rules_recorded_after_the_clock_was_set_back_spare_the_planned_batch(
    store: CheckpointStore,
) -> None:
    """It may have been written in part, and is replayed with the time it was planned at."""
    record_rules(store, 1, 1_000, RULES)
    plan(store, 7, PLANNED_MS)

    history = record_rules(store, 2, PLANNED_MS - 3_600_000, OTHER)

    assert history.at(PLANNED_MS) == RULES
    assert history.at(PLANNED_MS + 1) == OTHER


def test_a_planned_batch_without_its_rules_is_refused(store: CheckpointStore) -> None:
    record_rules(store, 1, 1_000, RULES)
    plan(store, 0, PLANNED_MS)
    store.delete_own("rules/1.json")

    with pytest.raises(CheckpointError, match="rules that it is decided by are gone") as refusal:
        record_rules(store, 2, PLANNED_MS + 1, OTHER)

    assert "checkpoint rebuild" in refusal.value.remedy
    assert store.own_numbers("rules") == []


def test_what_a_fenced_job_records_late_changes_nothing(store: CheckpointStore) -> None:
    record_rules(store, 1, 1_000, RULES)
    record_rules(store, 3, 2_000, RULES)

    record_rules(store, 2, 3_000, OLDER_JOBS)

    assert record_rules(store, 4, 4_000, OTHER).at(3_500) == RULES


def test_no_record_is_replaced_once_a_batch_is_planned(store: CheckpointStore) -> None:
    record_rules(store, 1, 500, OTHER)
    record_rules(store, 1, 1_000, RULES)
    plan(store, 0, 1_500)

    with pytest.raises(CheckpointError, match="Epoch 1 has already recorded"):
        record_rules(store, 1, 2_000, OTHER)

    assert read_rules(store).at(2_000) == RULES


def test_rules_that_can_t_be_read_are_refused(store: CheckpointStore) -> None:
    record_rules(store, 1, 1_000, RULES)
    store.replace_own("rules/1.json", '{"version": 1')

    with pytest.raises(CheckpointError, match="can't be read"):
        record_rules(store, 2, 2_000, OTHER)


def test_only_the_newest_files_are_kept_and_they_say_all(store: CheckpointStore) -> None:
    for epoch in range(1, FILES_KEPT + 4):
        record_rules(store, epoch, 1_000 * epoch, replace(RULES, check_max=epoch))

    assert store.own_numbers("rules") == list(range(4, FILES_KEPT + 4))
    assert read_rules(store).at(1_500).check_max == 1
