"""A look for groups that nobody answers for takes a bounded time, however many there are."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from checkback.sinks.kafka.cluster import transient_errors as asking_again
from checkback.streaming.reports.group_members import (
    groups_without_members,
    listed_members,
    live_members,
)

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


class Coordinators:
    """An admin client of groups whose coordinators answer with these codes, then with 2 members."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)

    def describe_consumer_groups(self, groups: list[str], **_: Any) -> dict[str, Any]:
        return dict.fromkeys(groups, self)

    def result(self, _: float) -> Any:
        if self.codes:
            raise KafkaException(KafkaError(self.codes.pop(0)))
        return SimpleNamespace(members=[1, 2])

    def list_groups(self, _: str, __: float) -> list[Any]:
        return [SimpleNamespace(error=KafkaError(self.codes.pop(0)), members=[])]


def test_members_are_asked_for_again_while_the_coordinator_moves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asking_again, "PAUSE_S", 0)
    moving = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
    admins: list[Any] = [
        Coordinators(*moving),
        Coordinators(KafkaError.GROUP_ID_NOT_FOUND),
        Coordinators(KafkaError.GROUP_AUTHORIZATION_FAILED),
    ]

    assert [live_members(admin, "g") for admin in admins] == [2, 0, None]


def test_a_group_whose_coordinator_loads_is_none_that_nobody_answers_for() -> None:
    loading: Any = Coordinators(*[KafkaError.COORDINATOR_LOAD_IN_PROGRESS] * 2)
    forbidden: Any = Coordinators(KafkaError.GROUP_AUTHORIZATION_FAILED)

    assert groups_without_members(loading, ["g"]) == []
    with pytest.raises(KafkaException):
        listed_members(loading, "g")
    assert groups_without_members(forbidden, ["g"]) == []
