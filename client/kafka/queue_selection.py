"""Chooses the queue of the next try. Pure: the caller gives leaders, faults, turn and clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from checkback.client.kafka.broker_watch import FaultTable
from checkback.client.message import Message, MessageQueue

MessageQueueSelector = Callable[[Sequence[MessageQueue], Message, Any], MessageQueue]
"""The application's own choice: of these queues, for that message, with the caller's argument."""


def choose_partition(
    leaders: Mapping[int, int | None],
    turn: int,
    *,
    barred: frozenset[int] = frozenset(),
    faults: FaultTable | None = None,
    now_ms: float = 0,
) -> int:
    """Return the next partition in turn, among those that are best to take.

    It keeps RocketMQ's order: partitions of available brokers come first, then those of reachable
    ones, then all others. Partitions without a leader come last.

    Args:
        leaders: the leader broker of each partition, None where it has none.
        barred: partitions to leave out, for example because they rejected the same message.
        faults: what is known of the brokers; None: their faults do not matter.
        now_ms: the time now, on the clock of ``faults``.
    """
    order = sorted(leaders)
    choices = [partition for partition in order if partition not in barred] or order
    choices = _narrow(choices, lambda one: leaders[one] is not None) or choices
    if faults is not None:
        table = faults
        best = _narrow(
            choices,
            lambda one: table.available(_broker(leaders, one), now_ms),
            lambda one: table.reachable(_broker(leaders, one)),
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


def _broker(leaders: Mapping[int, int | None], partition: int) -> int:
    leader = leaders[partition]
    return -1 if leader is None else leader
