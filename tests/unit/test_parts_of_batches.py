"""A batch that is written in several transactions, over a Kafka in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from tests.fakes.kafka import Cluster
from tests.unit.sink_stage import (
    BARE,
    HALVES,
    NAMES,
    cluster,
    finals,
    marker,
    request,
    write,
)
from tests.unit.test_touched_markers import Folder

from checkback.protocol.errors import CheckpointError
from checkback.sinks.kafka.transaction.epoch import begin_epoch
from checkback.sinks.kafka.transaction.producer import MarkedProducer
from checkback.sinks.process.writer_pool import Writers
from checkback.state import unpack_settled
from checkback.streaming.batch.run_batch import is_begun
from checkback.streaming.start.preflight import require_markers

__all__ = ["cluster"]
NUMBERS = (0, *range(HALVES))
"""Batch 0 with all of its halves."""
SMALL = replace(BARE, transaction_rows_max=2)


class DiedError(Exception):
    """The process died here."""


def die_behind_part(number: int) -> Any:
    """Have the process die behind the commit of that part."""
    honest, parts = MarkedProducer.commit_part, [0]

    def commit(self: MarkedProducer, batch_id: int, rows_done: int, now_ms: int) -> None:
        honest(self, batch_id, rows_done, now_ms)
        parts[0] += 1
        if parts[0] == number:
            raise DiedError

    return patch.object(MarkedProducer, "commit_part", commit)


def marked(cluster: Cluster) -> list[list[int]]:
    """The half offsets of each settled mark."""
    log = cluster.topics[NAMES.settled].partitions[0]
    blobs = [log.records[at].value for at in range(log.end) if log.is_visible(at)]
    return [unpack_settled(blob or b"").offset.tolist() for blob in blobs]


ALL = [b"%d" % number for number in range(HALVES)]


def test_each_part_has_its_finals_and_their_marks(cluster: Cluster) -> None:
    write(begin_epoch(SMALL, 1, (), 0), *NUMBERS)

    assert finals(cluster) == ALL
    assert marked(cluster) == [[0, 1], [2, 3], [4]]
    assert (marker().next_batch, marker().rows_done) == (1, 0)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("rows_max", [1, 2, 500])
def test_the_next_try_goes_on_behind_the_parts_that_are_written(
    cluster: Cluster, parts: int, rows_max: int
) -> None:
    settings = begin_epoch(SMALL, 1, (), 0)
    with die_behind_part(parts), pytest.raises(DiedError):
        write(settings, *NUMBERS)
    assert finals(cluster) == ALL[: 2 * parts]
    assert marker() == replace(marker(), next_batch=0, rows_done=2 * parts)

    write(replace(settings, transaction_rows_max=rows_max), *NUMBERS)

    assert finals(cluster) == ALL
    assert [offset for one in marked(cluster) for offset in one] == list(range(HALVES))


def test_the_next_start_keeps_the_count(cluster: Cluster) -> None:
    with die_behind_part(1), pytest.raises(DiedError):
        write(begin_epoch(SMALL, 1, (), 0), *NUMBERS)
    folder: Any = Folder(planned=0, committed=None)

    later = begin_epoch(SMALL, 1, require_markers(BARE, 1, folder), 0)

    assert (marker().epoch, marker().rows_done) == (later.epoch, 2)
    write(later, *NUMBERS)
    assert finals(cluster) == ALL


def test_a_part_counts_as_output_wherever_somebody_asks(cluster: Cluster) -> None:
    """An older copy of the checkpoint would plan the batch again, with other contents."""
    with die_behind_part(1), pytest.raises(DiedError):
        write(begin_epoch(SMALL, 1, (), 0), *NUMBERS)
    older: Any = Folder(planned=None, committed=None)

    assert is_begun(BARE, 1, None, 0)
    assert not is_begun(BARE, 1, None, 1)
    with pytest.raises(CheckpointError, match="older copy"):
        require_markers(BARE, 1, older)


def test_no_batch_follows_one_that_is_written_in_part(cluster: Cluster) -> None:
    settings = begin_epoch(SMALL, 1, (), 0)
    with die_behind_part(1), pytest.raises(DiedError):
        write(settings, *NUMBERS)

    with pytest.raises(CheckpointError, match="0 says that batch 0 is written in part only"):
        write(settings, 1, 0)


def test_a_batch_with_fewer_rows_than_are_written_is_refused(cluster: Cluster) -> None:
    settings = begin_epoch(SMALL, 1, (), 0)
    with die_behind_part(2), pytest.raises(DiedError):
        write(settings, *NUMBERS)

    with pytest.raises(
        CheckpointError, match="4 rows of the batch are written, but the batch has 3"
    ):
        write(settings, 0, 0, 1, 2)
    assert finals(cluster) == ALL[:4]


def test_a_process_whose_try_ended_between_parts_looks_at_the_marker_again(
    cluster: Cluster,
) -> None:
    """The simulation found it: another process had written the rest, this one knew the part."""
    settings, first = begin_epoch(SMALL, 1, (), 0), Writers()
    with die_behind_part(1), pytest.raises(DiedError):
        first.write(request(settings, 0, 0, 1, 2, 3))
    write(settings, 0, 0, 1, 2, 3)

    first.write(request(settings, 1, 4))

    assert finals(cluster) == ALL
