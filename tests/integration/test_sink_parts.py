"""A batch in several transactions, on a real broker, forwarded and not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.integration.sinking import World, commits

from checkback.sinks.kafka.transaction import MarkedProducer
from checkback.sinks.outputs import BatchOutputs
from checkback.sinks.plan import Lookup
from checkback.state import Outcome, unpack_settled

HALVES = 250
SLOW_HALVES = 1_000


def with_settings(world: World, **changes: Any) -> World:
    world.settings = replace(world.settings, **changes)
    return world


def finals(world: World) -> list[int]:
    """The bodies of both partitions, in order of the halves."""
    return sorted(int(body or b"") for _, body, _ in world.read(world.real))


def marks(world: World) -> list[list[int]]:
    blobs = [value or b"" for _, value, _ in world.read(world.names.settled)]
    return [unpack_settled(blob).offset.tolist() for blob in blobs]


def test_a_writer_that_dies_between_two_parts_is_followed_by_one_that_goes_on(
    either: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_settings(either, transaction_rows_max=100)
    either.halves([b"%d" % number for number in range(HALVES)])
    honest = MarkedProducer.commit_part

    def commit_and_die(self: MarkedProducer, batch_id: int, rows_done: int, now_ms: int) -> None:
        honest(self, batch_id, rows_done, now_ms)
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(MarkedProducer, "commit_part", commit_and_die)
        with pytest.raises(KeyboardInterrupt):
            either.writer().write([commits(*range(HALVES))], 0, 0)
    before = finals(either)

    report = either.writer().write([commits(*range(HALVES))], 0, 0)

    assert before == list(range(100))
    assert finals(either) == list(range(HALVES))
    assert report.counts["finals"] == 150
    assert marks(either) == [list(range(100)), list(range(100, 200)), list(range(200, HALVES))]


def test_a_batch_that_is_too_slow_for_its_timeout_is_written_in_parts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was tried three times in one piece, and again at every start."""
    with_settings(world, transaction_timeout_ms=4_000)
    world.halves([b"%d" % number for number in range(SLOW_HALVES)])
    each_s = 0.01  # all of them take 10 s, the least part a quarter of the timeout
    honest = BatchOutputs.of

    def slow(
        self: BatchOutputs, outcomes: list[Outcome], batch_id: int, state_partition: int
    ) -> Iterator[object]:
        for output in honest(self, outcomes, batch_id, state_partition):
            time.sleep(each_s)
            yield output

    def left_to_python(_: BatchOutputs, lookup: Lookup) -> Lookup:
        return lookup

    monkeypatch.setattr(BatchOutputs, "of", slow)
    monkeypatch.setattr(BatchOutputs, "_forwarded", left_to_python)

    report = world.writer().write([commits(*range(SLOW_HALVES))], 0, 0)

    assert finals(world) == list(range(SLOW_HALVES))
    assert report.counts["finals"] == SLOW_HALVES
    assert len(marks(world)) > 2
