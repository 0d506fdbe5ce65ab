"""The rules of access control that a checkpoint recorded: checkback.checkpoints.access_versions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from checkback.checkpoints.access_versions import (
    FILES_KEPT,
    FOLDER,
    OFF,
    AccessVersion,
    read_access_version,
    record_access_version,
)
from checkback.checkpoints.store import CheckpointStore
from checkback.protocol.errors import CheckpointError

FIRST, SECOND = "first", "second"


@pytest.fixture
def store(spark: SparkSession, tmp_path: Path) -> CheckpointStore:
    return CheckpointStore.of(spark, str(tmp_path / "checkpoint"))


def record(
    store: CheckpointStore, version: str, epoch: int = 1, *, begun: bool = False
) -> AccessVersion:
    return record_access_version(store, epoch, version, {"a": 1}, lambda _: begun)[1]


def plan(store: CheckpointStore, *, planned: int, committed: int) -> None:
    store.replace(f"offsets/{planned}", "v1")
    store.replace(f"commits/{committed}", "v1")


def test_a_checkpoint_without_a_record_never_had_access_control(store: CheckpointStore) -> None:
    assert record(store, OFF) == AccessVersion(0)
    assert store.own_numbers(FOLDER) == []


def test_rules_are_recorded_once_under_a_name_that_tells_nothing(store: CheckpointStore) -> None:
    now = record(store, FIRST)

    assert record(store, FIRST, epoch=2) == now == read_access_version(store)
    assert len(store.own_numbers(FOLDER)) == 1
    assert (now.from_batch, now.rules) == (0, {"a": 1})
    assert FIRST not in now.version


def test_a_field_that_was_taken_away_is_passed_over(store: CheckpointStore) -> None:
    store.create_own(f"{FOLDER}/1.json", json.dumps({"from_batch": 3, "taken_away": 1}))

    assert read_access_version(store) == AccessVersion(3)


def test_other_rules_hold_from_the_first_batch_that_is_not_begun(store: CheckpointStore) -> None:
    record(store, FIRST)
    plan(store, planned=8, committed=7)

    assert record(store, SECOND, epoch=2).from_batch == 8
    assert record(store, OFF, epoch=2).version == OFF
    assert read_access_version(store).version == OFF


def test_a_batch_that_is_written_in_part_keeps_its_rules(store: CheckpointStore) -> None:
    record(store, FIRST)
    plan(store, planned=8, committed=7)

    with pytest.raises(CheckpointError, match=r"Batch 8 .* written in part") as refusal:
        record(store, SECOND, epoch=2, begun=True)
    assert "acl_file" in str(refusal.value)
    assert record(store, FIRST, epoch=3, begun=True).is_of(FIRST)


def test_a_batch_that_was_begun_under_rules_whose_record_is_gone_is_refused(
    store: CheckpointStore,
) -> None:
    record(store, FIRST)
    plan(store, planned=8, committed=7)
    [number] = store.own_numbers(FOLDER)
    store.delete_own(f"{FOLDER}/{number}.json")

    with pytest.raises(CheckpointError, match=r"Batch 8 .* written in part"):
        record(store, FIRST, epoch=2, begun=True)


def test_a_record_of_a_fenced_job_changes_nothing(store: CheckpointStore) -> None:
    younger = record(store, FIRST, epoch=2)

    record(store, SECOND, epoch=1)

    assert read_access_version(store) == younger


def test_old_records_go(store: CheckpointStore) -> None:
    for number in range(FILES_KEPT + 3):
        record(store, f"version {number}")

    assert len(store.own_numbers(FOLDER)) == FILES_KEPT
    assert read_access_version(store).is_of(f"version {FILES_KEPT + 2}")


def test_a_damaged_record_is_refused(store: CheckpointStore) -> None:
    record(store, FIRST)
    [number] = store.own_numbers(FOLDER)
    store.replace_own(f"{FOLDER}/{number}.json", "{")

    with pytest.raises(CheckpointError, match="can't be read"):
        read_access_version(store)
