"""Chooses the queue of the next try, by leaders, turn and what is known of the brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from checkback.client.kafka.broker_watch import BrokerWatch
from checkback.client.message import Message, MessageQueue

BY_KEY: Final = -1
"""The partition where the key chooses it, as in every Kafka client."""
MessageQueueSelector = Callable[[Sequence[MessageQueue], Message, Any], MessageQueue]
"""The application's own choice: of these queues, for that message, with the caller's argument."""


def choose_partition(
    leaders: Mapping[int, int | None],
    turn: int,
    *,
    barred: frozenset[int] = frozenset(),
    brokers: BrokerWatch | None = None,
) -> int:
    """Return the next partition in turn, among those that are best to take.

    It keeps RocketMQ's order: partitions of available brokers come first, then those of reachable
    ones, then all others. Partitions without a leader come last.

    Args:
        leaders: the leader broker of each partition, None where it has none.
        barred: partitions to leave out, for example because they rejected the same message.
        brokers: what is known of the brokers; None: their faults do not matter.
    """
    order = sorted(leaders)
    choices = [partition for partition in order if partition not in barred] or order
    choices = _narrow(choices, lambda one: leaders[one] is not None) or choices
    if brokers is not None:
        best = _narrow(
            choices,
            lambda one: brokers.is_available(leaders[one]),
            lambda one: not brokers.is_away(leaders[one]),
        )
        choices = best or choices
    return choices[turn % len(choices)]


def _narrow(choices: list[int], *tests: Callable[[int], bool]) -> list[int]:
    """Return the choices that pass the first test that any passes, none if none does."""
    for test in tests:
        passing = [choice for choice in choices if test(choice)]
        if passing:
            return passing
    return []
