"""Records are taken from a consumer without waiting for more than the first."""

from __future__ import annotations

from typing import Any

import pytest

from checkback.sinks.kafka.read.poll import polled


@pytest.mark.parametrize("there", [[], ["a"], ["a", "b", "c"]])
def test_only_the_first_record_is_waited_for(there: list[str]) -> None:
    waited: list[float] = []
    left = list(there)

    class Waiting:
        def poll(self, wait_s: float) -> str | None:
            waited.append(wait_s)
            return left.pop(0) if left else None

        def consume(self, messages_max: int, wait_s: float) -> list[str]:
            waited.append(wait_s)
            return left[:messages_max]

    consumer: Any = Waiting()
    taken: list[Any] = list(polled(consumer, 0.5))
    assert taken == there
    assert waited == [0.5, 0.0][: 2 if there else 1]
