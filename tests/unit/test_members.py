"""A look for groups that nobody answers for takes a bounded time, however many there are."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

from checkback.streaming.members import groups_without_members

LOOK_TOOK_S = 0.01


class Brokers:
    """An admin client that knows no member of any group, and takes its time to say so."""

    def __init__(self, members: Counter[str]) -> None:
        self.members = members
        self.asked: list[str] = []

    def list_groups(self, group: str, _: float) -> list[Any]:
        self.asked.append(group)
        return [SimpleNamespace(error=None, members=[None] * self.members[group])]

    def clock_s(self) -> float:
        return 100 + len(self.asked) * LOOK_TOOK_S


def test_groups_that_nobody_answers_for_are_told_in_order() -> None:
    brokers: Any = Brokers(Counter(b=1))

    assert groups_without_members(brokers, {"c", "b", "a"}, brokers.clock_s) == ["a", "c"]


def test_groups_without_number_keep_the_driver_for_seconds_only_and_each_has_its_turn() -> None:
    brokers: Any = Brokers(Counter())
    names = [f"g{number}" for number in range(2_000)]

    found = groups_without_members(brokers, names, brokers.clock_s)
    first = set(brokers.asked)
    groups_without_members(brokers, names, lambda: brokers.clock_s())

    assert len(first) == 500
    assert found == sorted(first)
    assert set(brokers.asked) != first
