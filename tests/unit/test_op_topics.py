"""Ops of both topics, looked up by the offsets that the state tells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from tests.deciding import page_outcome

from checkback.protocol.topics import TopicNames
from checkback.sinks.kafka.op_topics import OpTopics, op_origin
from checkback.sinks.plan import fence_lookups, half_lookups, op_lookups
from checkback.state import DIRECT_SOURCE, Action

NAMES = TopicNames("eu.")


@dataclass
class Asked:
    """A source that has nothing, and remembers what it was asked for."""

    offsets: list[int] = field(default_factory=list)
    is_closed: bool = False

    def read(self, partition: int, offsets: NDArray[np.int64]) -> Iterator[tuple[int, None]]:
        del partition
        self.offsets += offsets.tolist()
        yield from ((offset, None) for offset in offsets.tolist())

    def close(self) -> None:
        self.is_closed = True


def test_each_topic_is_asked_for_its_own_and_the_order_stays() -> None:
    plain, direct = Asked(), Asked()
    wanted = np.array([3, 9, DIRECT_SOURCE, DIRECT_SOURCE + 5])

    found = [offset for offset, _ in OpTopics(plain, direct).read(1, wanted)]

    assert found == wanted.tolist()
    assert (plain.offsets, direct.offsets) == ([3, 9], [0, 5])


def test_an_op_stands_on_the_topic_that_its_offset_tells() -> None:
    assert op_origin(NAMES, 1, 7) == (NAMES.op, 1, 7)
    assert op_origin(NAMES, 1, DIRECT_SOURCE + 7) == (NAMES.direct_op, 1, 7)


def test_both_sources_are_closed() -> None:
    plain, direct = Asked(), Asked()

    OpTopics(plain, direct).close()

    assert plain.is_closed
    assert direct.is_closed


def test_a_delivered_half_is_not_looked_up_and_a_fenced_one_only_for_its_session() -> None:
    outcome = page_outcome(
        0, (Action.DELIVERED, 1, 0, 1), (Action.FENCE, 2, 3, 2), (Action.COMMIT, 4, 0, 4)
    )

    [halves], [fences] = half_lookups([outcome]), fence_lookups([outcome])

    assert halves.offset.tolist() == [4]
    assert fences.offset.tolist() == [2]
    assert op_lookups([outcome]) == []
