"""A transactional producer is connected before it asks for its coordinator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from checkback.sinks.kafka.transaction import init as initialising
from checkback.sinks.kafka.transaction.init import CONNECTED_WITHIN_S, INIT_LEAST_S, initialise


class Asked:
    """Notes what is asked of a producer, in order; each answer takes its time."""

    def __init__(self, answer: Callable[[], Any], takes_s: float = 0.0) -> None:
        self.calls: list[tuple[str, float]] = []
        self.now_s = 0.0
        self._answer, self._takes_s = answer, takes_s

    def monotonic(self) -> float:
        return self.now_s

    def list_topics(self, topic: str, timeout_s: float) -> Any:
        self.calls.append((topic, timeout_s))
        self.now_s += self._takes_s
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
def test_silent_brokers_cost_no_more_than_the_time_that_was_given(
    timeout_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer: Any = Asked(silent)
    monkeypatch.setattr(initialising, "time", producer)

    initialise(producer, "half", timeout_s)

    waited = [waits_s for name, waits_s in producer.calls if name == "half"]
    assert waited == [min(timeout_s, CONNECTED_WITHIN_S)]
    assert producer.calls[-1][0] == "init"
    assert producer.calls[-1][1] <= timeout_s


@pytest.mark.parametrize("timeout_s", [-0.5, 0.0, 0.4, 60.0])
def test_both_answers_share_the_time_and_none_is_waited_for_without_end(
    timeout_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller's deadline may have passed already."""
    producer: Any = Asked(lambda: None, takes_s=0.75)
    monkeypatch.setattr(initialising, "time", producer)

    initialise(producer, "half", timeout_s)

    (_, first_s), (_, second_s), (_, init_s) = producer.calls
    assert first_s == max(0.0, min(timeout_s, CONNECTED_WITHIN_S))
    assert second_s == max(0.0, min(timeout_s, CONNECTED_WITHIN_S) - 0.75)
    assert init_s == max(INIT_LEAST_S, timeout_s - 1.5)
