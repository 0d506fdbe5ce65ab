"""A batch that is written in several transactions, over a Kafka in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from tests.deciding import page_outcome
from tests.fakes.kafka import Awaits, Clock, Cluster, installed
from tests.unit.test_touched_markers import BARE, NAMES, Folder, finals

from checkback.protocol.errors import CheckpointError, FencedError
from checkback.protocol.records import half_headers
from checkback.sinks.kafka.transaction.epoch import begin_epoch
from checkback.sinks.kafka.transaction.marker import Marker, MarkerStore
from checkback.sinks.kafka.transaction.producer import MarkedProducer
from checkback.sinks.process.writer_pool import WriteAnswer, WriteRequest, Writers
from checkback.sinks.settings import SinkSettings
from checkback.state import Action, unpack_settled
from checkback.streaming.batch.batch_output import is_written
from checkback.streaming.start.preflight import require_markers

HALVES = 5
SMALL = replace(BARE, transaction_rows_max=2)


class DiedError(Exception):
    """The process died here."""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster(Awaits(Clock()))
    for name in (NAMES.half, NAMES.op, NAMES.refused, NAMES.settled, "orders"):
        made.create_topic(name, 1)
    for number in range(HALVES):
        headers = half_headers(
            producer_group="g", transaction_id=f"{number}", real_topic="orders", properties={}
        )
        made.write(NAMES.half, 0, None, b"%d" % number, headers)
    with installed(made):
        yield made


def write(settings: SinkSettings, batch: int = 0, halves: int = HALVES) -> WriteAnswer:
    """Write a batch that commits the halves, like a task in a new process."""
    decided = page_outcome(0, *((Action.COMMIT, number, 0, number) for number in range(halves)))
    return Writers().write(WriteRequest(settings, 0, batch, 0, [decided.pack()]))


def die_behind_part(number: int) -> Any:
    """Have the process die behind the commit of that part."""
    honest, parts = MarkedProducer.commit_part, [0]

    def commit(self: MarkedProducer, batch_id: int, rows_done: int, now_ms: int) -> None:
        honest(self, batch_id, rows_done, now_ms)
        parts[0] += 1
        if parts[0] == number:
            raise DiedError

    return patch.object(MarkedProducer, "commit_part", commit)


def marker() -> Marker:
    store = MarkerStore(BARE)
    found = store.read([0])[0]
    store.close()
    return found


def marked(cluster: Cluster) -> list[list[int]]:
    """The half offsets of each settled mark."""
    log = cluster.topics[NAMES.settled].partitions[0]
    blobs = [log.records[at].value for at in range(log.end) if log.is_visible(at)]
    return [unpack_settled(blob or b"").offset.tolist() for blob in blobs]


ALL = [b"%d" % number for number in range(HALVES)]


def test_each_part_has_its_finals_and_their_marks(cluster: Cluster) -> None:
    write(begin_epoch(SMALL, 1, (), 0))

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
        write(settings)
    assert finals(cluster) == ALL[: 2 * parts]
    assert marker() == replace(marker(), next_batch=0, rows_done=2 * parts)

    write(replace(settings, transaction_rows_max=rows_max))

    assert finals(cluster) == ALL
    assert [offset for one in marked(cluster) for offset in one] == list(range(HALVES))


def test_the_next_start_keeps_the_count(cluster: Cluster) -> None:
    with die_behind_part(1), pytest.raises(DiedError):
        write(begin_epoch(SMALL, 1, (), 0))
    folder: Any = Folder(planned=0, committed=None)

    later = begin_epoch(SMALL, 1, require_markers(BARE, 1, folder), 0)

    assert (marker().epoch, marker().rows_done) == (later.epoch, 2)
    write(later)
    assert finals(cluster) == ALL


def test_a_part_counts_as_output_wherever_somebody_asks(cluster: Cluster) -> None:
    """An older copy of the checkpoint would plan the batch again, with other contents."""
    with die_behind_part(1), pytest.raises(DiedError):
        write(begin_epoch(SMALL, 1, (), 0))
    older: Any = Folder(planned=None, committed=None)

    assert is_written(BARE, 1, 0)
    assert not is_written(BARE, 1, 1)
    with pytest.raises(CheckpointError, match="older copy"):
        require_markers(BARE, 1, older)


def test_no_batch_follows_one_that_is_written_in_part(cluster: Cluster) -> None:
    settings = begin_epoch(SMALL, 1, (), 0)
    with die_behind_part(1), pytest.raises(DiedError):
        write(settings)

    with pytest.raises(CheckpointError, match="batch 0 is written in part only"):
        write(settings, batch=1)


def test_a_batch_with_fewer_rows_than_are_written_is_refused(cluster: Cluster) -> None:
    settings = begin_epoch(SMALL, 1, (), 0)
    with die_behind_part(2), pytest.raises(DiedError):
        write(settings)

    with pytest.raises(
        CheckpointError, match="4 rows of the batch are written, but the batch has 3"
    ):
        write(settings, halves=3)
    assert finals(cluster) == ALL[:4]


def test_an_older_job_writes_no_further_part(cluster: Cluster) -> None:
    settings = begin_epoch(SMALL, 1, (), 0)
    with die_behind_part(1), pytest.raises(DiedError):
        write(settings)
    begin_epoch(SMALL, 1, (0,), 0)

    with pytest.raises(FencedError):
        write(settings)
    assert finals(cluster) == ALL[:2]


def test_a_process_whose_try_ended_between_parts_looks_at_the_marker_again(
    cluster: Cluster,
) -> None:
    """The simulation found it: another process had written the rest, this one knew the part."""
    settings, first, batch = begin_epoch(SMALL, 1, (), 0), Writers(), [0, 1, 2, 3]
    decided = [page_outcome(0, *((Action.COMMIT, at, 0, at) for at in batch)).pack()]
    with die_behind_part(1), pytest.raises(DiedError):
        first.write(WriteRequest(settings, 0, 0, 0, decided))
    Writers().write(WriteRequest(settings, 0, 0, 0, decided))

    last = page_outcome(0, (Action.COMMIT, 4, 0, 4)).pack()
    first.write(WriteRequest(settings, 0, 1, 0, [last]))

    assert finals(cluster) == ALL
