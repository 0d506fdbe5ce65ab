"""A start refuses markers that another program set, because they do not show what was written."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition
from tests.fakes.kafka import Cluster
from tests.unit.sink_stage import BARE, NAMES, cluster, finals, write

from checkback.protocol.errors import CheckpointError
from checkback.sinks.kafka.transaction.epoch import begin_epoch
from checkback.sinks.kafka.transaction.marker import _marker as marker_of
from checkback.streaming.start.preflight import require_markers

__all__ = ["cluster"]


class Folder:
    """A checkpoint with these planned and committed batches."""

    path = "checkpoint"

    def __init__(self, planned: int | None, committed: int | None) -> None:
        self.last = {"offsets": planned, "commits": committed}

    def last_batch(self, log: str) -> int | None:
        return self.last[log]


def move_marker(cluster: Cluster, next_batch: int) -> None:
    """Set markers like ``kafka-consumer-groups --reset-offsets``."""
    cluster.reset_offsets(BARE.marker_group, [TopicPartition(NAMES.settled, 0, next_batch)])


@pytest.mark.parametrize("next_batch", [0, 1, 2, 3, 7])
def test_a_task_refuses_a_marker_that_was_set_by_hand(cluster: Cluster, next_batch: int) -> None:
    settings = begin_epoch(BARE, 1, (), 0)
    write(settings, 0, 0)
    move_marker(cluster, next_batch)

    with pytest.raises(CheckpointError, match="0 was set by hand before batch 1") as refused:
        write(settings, 1, 1)

    assert refused.value.fields == {"state_partition": 0, "batch_id": 1}
    assert "Run `checkback checkpoint rebuild`" in refused.value.remedy
    assert finals(cluster) == [b"0"]


def test_a_task_refuses_a_marker_that_is_past_the_next_batch(cluster: Cluster) -> None:
    settings = begin_epoch(BARE, 1, (), 0)
    write(settings, 0, 0)
    write(settings, 1, 1)
    write(settings, 2, 2)

    with pytest.raises(CheckpointError, match="0 is past batch 2 before batch 1"):
        write(settings, 1, 1)


def test_a_task_refuses_a_marker_of_an_older_start(cluster: Cluster) -> None:
    """A start writes its epoch into every marker, so somebody set this one back."""
    settings = begin_epoch(BARE, 1, (), 0)

    with pytest.raises(CheckpointError, match="0 is of epoch 1, this start's is 2, before"):
        write(replace(settings, epoch=settings.epoch + 1), 0, 0)

    assert finals(cluster) == []


def test_a_batch_0_without_a_marker_is_refused_where_the_start_wrote_one(cluster: Cluster) -> None:
    settings = begin_epoch(BARE, 1, (), 0)
    write(settings, 0, 0)
    cluster.group(BARE.marker_group).delete()

    with pytest.raises(CheckpointError, match="0 is gone before batch 0: whether"):
        write(settings, 0, 0)

    assert finals(cluster) == [b"0"]


def test_a_start_refuses_a_marker_that_was_set_by_hand(cluster: Cluster) -> None:
    write(begin_epoch(BARE, 1, (), 0), 0, 0)
    folder = Folder(planned=0, committed=None)
    require_markers(BARE, 1, folder)  # type: ignore[arg-type]
    move_marker(cluster, 0)

    with pytest.raises(CheckpointError, match="by hand"):
        require_markers(BARE, 1, folder)  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match="by hand") as refused:
        begin_epoch(BARE, 1, (0,), 0)
    assert refused.value.fields == {"state_partitions": [0], "group": BARE.marker_group}


def test_a_start_refuses_that_markers_are_gone_once_a_batch_is_planned(cluster: Cluster) -> None:
    write(begin_epoch(BARE, 1, (), 0), 0, 0)
    cluster.group(BARE.marker_group).delete()

    with pytest.raises(CheckpointError, match="are gone"):
        require_markers(BARE, 1, Folder(planned=0, committed=None))  # type: ignore[arg-type]


def test_a_start_waits_for_markers_that_kafka_is_about_to_write(cluster: Cluster) -> None:
    """The first start died at its first batch, and this one follows at once."""
    cluster.coordinator.marker_delay_ms = lambda: 500.0
    begin_epoch(BARE, 1, (), 0)

    markers = require_markers(BARE, 1, Folder(planned=0, committed=None))  # type: ignore[arg-type]

    assert markers[0].next_batch == 0


def test_a_start_that_another_one_overtakes_misses_no_marker(cluster: Cluster) -> None:
    """The other job planned its first batch after this one looked for markers."""

    class Overtaken(Folder):
        looks = 0

        def last_batch(self, log: str) -> int | None:
            self.looks += log == "offsets"
            return 0 if log == "offsets" and self.looks > 1 else None

    assert require_markers(BARE, 1, Overtaken(None, None)) == {}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "metadata",
    ["", "abc", "5", "null", "[]", "{}", '{"moved_at_ms": 5}', '{"epoch": null}',
     '{"epoch": 1e999}', "[" * 100_000],
)  # fmt: skip
def test_metadata_that_no_pipeline_wrote_is_a_marker_set_by_hand(metadata: str) -> None:
    found = TopicPartition("settled", 0, 7, metadata)

    assert marker_of(found).is_by_hand
    assert marker_of(found).next_batch == 7
