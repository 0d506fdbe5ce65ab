"""How many starts have found a batch begun, and from when on they read in small polls."""

from __future__ import annotations

from typing import Any

import pytest

from checkback.streaming.source.kafka_source import FILE, count_start_over_batch


class Checkpoint:
    """Of a checkpoint, what is needed here."""

    def __init__(self, planned: int | None, done: int | None) -> None:
        self.last = {"offsets": planned, "commits": done}
        self.own: dict[str, str] = {}

    def last_batch(self, log: str) -> int | None:
        return self.last[log]

    def read_own(self, name: str) -> str | None:
        return self.own.get(name)

    def replace_own(self, name: str, text: str) -> None:
        self.own[name] = text


def test_the_second_start_that_finds_a_batch_begun_reads_in_small_polls() -> None:
    checkpoint: Any = Checkpoint(7, 6)
    assert [count_start_over_batch(checkpoint) for _ in range(3)] == [False, True, True]

    checkpoint.last = {"offsets": 8, "commits": 7}  # another batch has a count of its own
    assert [count_start_over_batch(checkpoint) for _ in range(2)] == [False, True]


@pytest.mark.parametrize("batch", [None, 7])
def test_a_start_that_finds_nothing_begun_counts_nothing(batch: int | None) -> None:
    checkpoint: Any = Checkpoint(batch, batch)

    assert not count_start_over_batch(checkpoint)
    assert checkpoint.own == {}


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"batch": 7, "starts": "many"}'])
def test_a_count_that_can_not_be_read_begins_again(text: str) -> None:
    checkpoint: Any = Checkpoint(7, 6)
    checkpoint.own[FILE] = text

    assert [count_start_over_batch(checkpoint) for _ in range(2)] == [False, True]
