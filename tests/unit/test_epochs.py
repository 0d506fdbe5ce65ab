"""Epochs: who takes a checkpoint over, and who ends it for good."""

from __future__ import annotations

import pytest
from tests.fakes.kafka import Cluster
from tests.fakes.kafka.log import PartitionLog
from tests.unit.sink_stage import BARE, NAMES, cluster, finals, write

from checkback.protocol.errors import BrokerError, CheckpointError, FencedError
from checkback.sinks.kafka.transaction import epoch
from checkback.sinks.kafka.transaction.epoch import (
    LOOK_TIMEOUT_S,
    RETIRED,
    TRIES,
    EpochWatch,
    begin_epoch,
    retire,
)
from checkback.sinks.kafka.transaction.errors import ProducerLostError
from checkback.sinks.kafka.transaction.marker import MarkerStore
from checkback.sinks.kafka.transaction.producer import MarkedProducer
from checkback.sinks.settings import SinkSettings

__all__ = ["cluster"]


def test_over_a_checkpoint_that_was_replaced_nobody_writes_or_starts(cluster: Cluster) -> None:
    cluster.topics[NAMES.settled].partitions.append(PartitionLog(NAMES.settled, 1))
    settings = begin_epoch(BARE, 2, (), 5)

    retire(settings, 2)
    retire(settings, 2)

    markers = MarkerStore(BARE).read([0, 1])
    assert [(one.next_batch, one.epoch) for one in markers.values()] == [(5, RETIRED)] * 2
    told = "was replaced by a rebuilt one: .* Use the checkpoint that was rebuilt"
    with pytest.raises(CheckpointError, match=told) as refused:
        begin_epoch(BARE, 2, (0, 1), 5)
    assert refused.value.fields == {"query_id": BARE.query_id}
    with pytest.raises(FencedError):
        write(settings, 5, 0)
    assert finals(cluster) == []


def test_a_marker_that_never_was_is_retired_at_batch_0(cluster: Cluster) -> None:
    retire(BARE, 1)

    marker = MarkerStore(BARE).read([0])[0]
    assert (marker.next_batch, marker.epoch) == (0, RETIRED)


def test_a_marker_that_vanishes_while_a_job_starts_is_missed(cluster: Cluster) -> None:
    told = "The marker of state partition 0 vanished while .* Run `checkback checkpoint rebuild`"
    with pytest.raises(CheckpointError, match=told) as missed:
        begin_epoch(BARE, 1, (0,), 0)

    assert missed.value.fields == {"state_partition": 0}


def test_each_start_takes_the_next_epoch_for_all_and_keeps_the_batch(cluster: Cluster) -> None:
    cluster.topics[NAMES.settled].partitions.append(PartitionLog(NAMES.settled, 1))
    epochs = [begin_epoch(BARE, 2, (), 3).epoch for _ in range(3)]

    markers = MarkerStore(BARE).read([0, 1])
    assert epochs == [1, 2, 3]
    assert [(one.next_batch, one.epoch) for one in markers.values()] == [(3, 3)] * 2
    assert {one.moved_at_ms for one in markers.values()} == {int(cluster.clock.now_ms)}


def test_an_older_job_learns_of_a_younger_one_though_it_has_nothing_to_write(
    cluster: Cluster,
) -> None:
    watch = EpochWatch(begin_epoch(BARE, 1, (), 0))
    watch.close()
    watch.require_own()
    watch.close()
    watch.close()
    watch.require_own()

    begin_epoch(BARE, 1, (0,), 0)

    with pytest.raises(FencedError):
        watch.require_own()
    watch.close()


def test_a_look_at_the_epoch_takes_a_moment_and_an_answer_that_does_not_come_does_not_matter(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[tuple[list[int], float]] = []

    def read_hastily(_: MarkerStore, partitions: list[int], timeout_s: float) -> None:
        looks.append((partitions, timeout_s))
        raise BrokerError("The brokers do not answer.")

    monkeypatch.setattr(MarkerStore, "read_hastily", read_hastily)
    watch = EpochWatch(BARE)
    watch.require_own()

    assert looks == [([0], LOOK_TIMEOUT_S)]


def losing(monkeypatch: pytest.MonkeyPatch, losses: int) -> list[int]:
    """Let the first producers be lost; return the state partitions for which one was tried."""
    tried: list[int] = []

    def make(settings: SinkSettings, number: int) -> MarkedProducer:
        tried.append(number)
        if len(tried) <= losses:
            raise ProducerLostError(f"Lost {len(tried)}.")
        return MarkedProducer(settings, number)

    monkeypatch.setattr(epoch, "MarkedProducer", make)
    return tried


def test_a_start_that_is_overtaken_looks_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = losing(monkeypatch, TRIES - 1)

    assert begin_epoch(BARE, 1, (), 0).epoch == 1
    assert tried == [0] * TRIES


def test_a_start_that_is_overtaken_again_and_again_gives_up(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = losing(monkeypatch, 2 * TRIES)
    told = f"State partition 0 could not be taken over: Lost {TRIES}"
    with pytest.raises(BrokerError, match=told) as ended:
        begin_epoch(BARE, 1, (), 0)

    assert tried == [0] * TRIES
    assert ended.value.fields == {"state_partition": 0}


def test_a_start_takes_no_state_partition_from_a_later_one(cluster: Cluster) -> None:
    for _ in range(3):
        begin_epoch(BARE, 1, (), 0)

    with pytest.raises(FencedError):
        epoch._Fencing(BARE, (), 0).take(0, 2)

    assert MarkerStore(BARE).read([0])[0].epoch == 3
