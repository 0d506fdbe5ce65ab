"""A transactional producer is connected before it asks for its coordinator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from checkback.sinks.kafka.initialising import CONNECTED_WITHIN_S, initialise


class Asked:
    """Notes what is asked of a producer, in order."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self.calls: list[tuple[str, float]] = []
        self._answer = answer

    def list_topics(self, topic: str, timeout_s: float) -> Any:
        self.calls.append((topic, timeout_s))
        return self._answer()

    def init_transactions(self, timeout_s: float) -> None:
        self.calls.append(("init", timeout_s))


def silent() -> None:
    raise KafkaException(KafkaError(KafkaError._TRANSPORT))


def test_brokers_have_answered_twice_before_the_producer_is_initialised() -> None:
    producer: Any = Asked(lambda: None)

    initialise(producer, "half", 60)

    assert [name for name, _ in producer.calls] == ["half", "half", "init"]


@pytest.mark.parametrize("timeout_s", [0.2, 60.0])
def test_silent_brokers_cost_no_more_than_the_time_that_was_given(timeout_s: float) -> None:
    producer: Any = Asked(silent)

    initialise(producer, "half", timeout_s)

    waited = [waits_s for name, waits_s in producer.calls if name == "half"]
    assert waited == [min(timeout_s, CONNECTED_WITHIN_S)]
    assert producer.calls[-1][0] == "init"
    assert producer.calls[-1][1] <= timeout_s
