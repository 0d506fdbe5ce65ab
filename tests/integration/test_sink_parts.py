"""A batch in several transactions, on a real broker, forwarded and not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.integration.sinking import World, commits

from checkback.sinks.kafka.transaction.producer import MarkedProducer
from checkback.state import unpack_settled

HALVES = 250


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
            either.writer().write([commits(*range(HALVES))], 0)
    before = finals(either)

    report = either.writer().write([commits(*range(HALVES))], 0)

    assert before == list(range(100))
    assert finals(either) == list(range(HALVES))
    assert report.counts["finals"] == 150
    assert marks(either) == [list(range(100)), list(range(100, 200)), list(range(200, HALVES))]
