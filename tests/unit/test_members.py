"""Who answers for a producer group: counted by subscription, in a bounded time."""

from __future__ import annotations

import struct
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from checkback.protocol.topics import TopicNames
from checkback.sinks.kafka.cluster import transient_errors as asking_again
from checkback.streaming.reports.group_members import (
    groups_without_members,
    listed_members,
    live_members,
)

LOOK_TOOK_S = 0.01
NAMES = TopicNames("eu.")


def member(*topics: str) -> Any:
    """A member as the brokers list it, with what it said when it joined."""
    named = b"".join(struct.pack(">h", len(one)) + one.encode() for one in topics)
    metadata = struct.pack(">hi", 3, len(topics)) + named + struct.pack(">i", -1)
    return SimpleNamespace(metadata=metadata)


def listed(members: list[Any], *, state: str = "Stable", code: int | None = None) -> Any:
    """A group as the brokers list it."""
    error = None if code is None else KafkaError(code)
    return SimpleNamespace(error=error, members=members, state=state)


class Brokers:
    """An admin client that lists the members of groups, and takes its time to do so."""

    def __init__(self, members: Counter[str]) -> None:
        self.members = members
        self.asked: list[str] = []

    def list_groups(self, check_topic: str, _: float) -> list[Any]:
        group = check_topic.removeprefix(NAMES.check(""))
        self.asked.append(group)
        return [listed([member(check_topic)] * self.members[group])]

    def clock_s(self) -> float:
        return 100 + len(self.asked) * LOOK_TOOK_S


def test_groups_that_nobody_answers_for_are_told_in_order() -> None:
    brokers: Any = Brokers(Counter(b=1))

    assert groups_without_members(brokers, NAMES, {"c", "b", "a"}, brokers.clock_s) == ["a", "c"]


def test_groups_without_number_keep_the_driver_for_seconds_only_and_each_has_its_turn() -> None:
    brokers: Any = Brokers(Counter())
    names = [f"g{number}" for number in range(2_000)]

    found = groups_without_members(brokers, NAMES, names, brokers.clock_s)
    first = set(brokers.asked)
    groups_without_members(brokers, NAMES, names, lambda: brokers.clock_s())

    assert len(first) == 500
    assert found == sorted(first)
    assert set(brokers.asked) != first


class Lists:
    """An admin client of one group, of which it lists each of these, the last one ever after."""

    def __init__(self, *answers: list[Any]) -> None:
        self.answers = list(answers)

    def list_groups(self, _: str, __: float) -> list[Any]:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def test_only_members_that_subscribe_to_the_check_topic_answer() -> None:
    foreign = [member("paid", "orders"), member(), SimpleNamespace(metadata=b"-"), member("check")]
    mine = [member("eu.check"), member("paid", "eu.check")]

    lists: Any = Lists([listed(foreign + mine)])

    assert listed_members(lists, "eu.check") == len(mine)


def test_a_group_that_rebalances_is_not_called_silent() -> None:
    """Until it is stable, brokers do not say what the members subscribe to."""
    lists: Any = Lists([listed([SimpleNamespace(metadata=b"")], state="PreparingRebalance")])

    assert listed_members(lists, "eu.check") == 1


def test_a_group_on_the_newer_protocol_is_not_called_silent() -> None:
    """Brokers list such a group, and describe it as dead to those who ask in the older way."""
    newer: Any = Lists([listed([], state="Dead")])
    gone: Any = Lists([])

    assert (live_members(newer, "check"), live_members(gone, "check")) == (None, 0)
    assert groups_without_members(newer, NAMES, ["g"]) == []
    assert groups_without_members(gone, NAMES, ["g"]) == ["g"]


def coordinators(*codes: int) -> Any:
    """Return an admin client of coordinators that answer with these codes, then with 2 members."""
    return Lists(*([listed([], code=code)] for code in codes), [listed([member("check")] * 2)])


def test_members_are_asked_for_again_while_the_coordinator_moves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asking_again, "PAUSE_S", 0)
    admins = [
        coordinators(KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS),
        coordinators(KafkaError.GROUP_ID_NOT_FOUND),
        coordinators(KafkaError.GROUP_AUTHORIZATION_FAILED),
    ]

    assert [live_members(admin, "check") for admin in admins] == [2, 0, None]


def test_a_group_whose_coordinator_loads_is_none_that_nobody_answers_for() -> None:
    loading = coordinators(*[KafkaError.COORDINATOR_LOAD_IN_PROGRESS] * 2)
    forbidden = coordinators(KafkaError.GROUP_AUTHORIZATION_FAILED)

    assert groups_without_members(loading, NAMES, ["g"]) == []
    with pytest.raises(KafkaException):
        listed_members(loading, "check")
    assert groups_without_members(forbidden, NAMES, ["g"]) == []
