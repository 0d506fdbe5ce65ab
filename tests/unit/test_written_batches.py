"""Batches that one process writes after another, over a Kafka in memory: what it looks at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch

import pytest
from tests.fakes.kafka import Awaits, Clock, Cluster, Fault
from tests.unit.sink_stage import BARE, finals, marker, request, staged, write

from checkback.protocol.errors import CheckpointError
from checkback.sinks.kafka.transaction.epoch import begin_epoch
from checkback.sinks.kafka.transaction.marker import RENEWAL_MS, Marker
from checkback.sinks.kafka.transaction.producer import MarkedProducer
from checkback.sinks.process import writer_pool
from checkback.sinks.process.writer_pool import Writers


class Counting(Awaits):
    """Counts the calls."""

    def __init__(self) -> None:
        super().__init__(Clock())
        self.calls = Counter[str]()

    def before(self, call: str) -> Fault | None:
        self.calls[call] += 1
        return None


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with staged(Counting()) as made:
        yield made


def calls(cluster: Cluster) -> Counter[str]:
    assert isinstance(cluster.awaits, Counting)
    return cluster.awaits.calls


def test_a_batch_that_is_written_is_skipped(cluster: Cluster) -> None:
    settings = begin_epoch(BARE, 1, (), 0)
    assert calls(cluster)["init_transactions"] == 1

    reports = [write(settings, 0, 0) for _ in range(2)]

    assert [report.skipped for report in reports] == [False, True]
    assert finals(cluster) == [b"0"]
    assert marker() == Marker(1, int(cluster.clock.now_ms), settings.epoch)


def test_a_batch_without_output_moves_the_marker_only_to_renew_it(cluster: Cluster) -> None:
    settings, writers = begin_epoch(BARE, 1, (), 0), Writers()
    before = calls(cluster)["begin_transaction"]

    writers.write(request(settings, 0))
    assert calls(cluster)["begin_transaction"] == before
    cluster.clock.advance_to(cluster.clock.now_ms + RENEWAL_MS)
    writers.write(request(settings, 1))

    assert calls(cluster)["begin_transaction"] == before + 1
    assert marker() == Marker(2, int(cluster.clock.now_ms), settings.epoch)


def test_a_batch_in_parts_is_written_by_one_producer(cluster: Cluster) -> None:
    settings = begin_epoch(replace(BARE, transaction_rows_max=2), 1, (), 0)
    before = calls(cluster)["init_transactions"]

    write(settings, 0, 0, 1, 2, 3, 4)

    assert calls(cluster)["init_transactions"] == before + 1
    assert len(finals(cluster)) == 5


def test_only_who_wrote_no_batch_before_this_one_looks_whether_it_was_superseded(
    cluster: Cluster,
) -> None:
    settings, writers = begin_epoch(BARE, 1, (), 0), Writers()
    with patch.object(MarkedProducer, "is_superseded", return_value=False) as looks:
        for batch in (0, 1, 3):
            writers.write(request(settings, batch, batch))

    looks.assert_called_once_with(3)


def test_without_a_start_s_marker_only_the_first_batch_is_written(cluster: Cluster) -> None:
    with pytest.raises(CheckpointError, match="is gone before batch 1"):
        write(BARE, 1, 0)

    write(BARE, 0, 0)

    assert finals(cluster) == [b"0"]


@pytest.mark.parametrize(
    ("wants_native", "fallbacks"), [(True, 1), (False, 0)], ids=["wanted", "turned off"]
)
def test_a_batch_without_the_compiled_part_is_counted_where_it_is_wanted(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *, wants_native: bool, fallbacks: int
) -> None:
    monkeypatch.setattr(writer_pool, "native", lambda: None)  # it is not there
    pipeline = replace(BARE.pipeline, native_sink=wants_native)

    counts = write(replace(begin_epoch(BARE, 1, (), 0), pipeline=pipeline), 0, 0).counts

    assert (counts["native_fallbacks"], counts["finals"]) == (fallbacks, 1)
