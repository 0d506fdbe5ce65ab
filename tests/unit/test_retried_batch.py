"""How many starts have found a batch begun, and from when on it is read with care."""

from __future__ import annotations

from typing import Any

import pytest

from checkback.streaming.retried_batch import FILE, RetriedBatch, count_start


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


def test_the_second_start_that_finds_a_batch_begun_reads_it_with_care() -> None:
    checkpoint: Any = Checkpoint(7, 6)

    found = [count_start(checkpoint) for _ in range(3)]

    assert found == [RetriedBatch(7, starts) for starts in (1, 2, 3)]
    assert [one is not None and one.needs_care for one in found] == [False, True, True]


@pytest.mark.parametrize(("planned", "done"), [(None, None), (7, 7)])
def test_a_start_that_finds_nothing_begun_counts_nothing(
    planned: int | None, done: int | None
) -> None:
    checkpoint: Any = Checkpoint(planned, done)

    assert count_start(checkpoint) is None
    assert checkpoint.own == {}


def test_another_batch_is_counted_from_the_beginning() -> None:
    checkpoint: Any = Checkpoint(0, None)
    count_start(checkpoint)
    checkpoint.last = {"offsets": 1, "commits": 0}

    assert count_start(checkpoint) == RetriedBatch(1, 1)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"batch": 7, "starts": "many"}'])
def test_a_count_that_can_not_be_read_begins_again(text: str) -> None:
    checkpoint: Any = Checkpoint(7, 6)
    checkpoint.own[FILE] = text

    assert count_start(checkpoint) == RetriedBatch(7, 1)


def test_care_is_over_when_the_batch_is_written() -> None:
    retried = RetriedBatch(7, 2)

    assert [retried.is_done(last) for last in (None, 6, 7, 8)] == [False, False, True, True]
