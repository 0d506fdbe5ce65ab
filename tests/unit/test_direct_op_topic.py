"""A start leaves the former direct op topic in steps, and goes on with them after any crash."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from checkback.checkpoints.spark_files.logs import PlannedBatch, parse_offsets
from checkback.protocol.topics import TopicNames
from checkback.streaming.start.direct_op_topic import DirectOpTopic
from checkback.streaming.start.planned_run import PlannedRun

NAMES = TopicNames()
DIRECT = NAMES.direct_op
PLAIN = {topic: {"0": 5, "1": 7} for topic in NAMES.read}
OLD = {**PLAIN, DIRECT: {"0": 3, "1": 4}}
WITH_TOPIC = PlannedRun((*NAMES.read, DIRECT), drops_topic=False, batch=0)
WITHOUT_TOPIC = PlannedRun(NAMES.read, drops_topic=True, batch=0)
NOW_MS = 9_000


def plan_of(ends: Mapping[str, Any]) -> str:
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": 1_000, "conf": {"a": "b"}}
    return f"v1\n{json.dumps(metadata)}\n{json.dumps(ends)}"


class Store:
    """A checkpoint's two logs in memory."""

    def __init__(self, *plans: Mapping[str, Any], committed: int) -> None:
        self.plans = {number: plan_of(ends) for number, ends in enumerate(plans)}
        self.committed = committed

    def last_batch(self, log: str) -> int | None:
        if log == "commits":
            return self.committed if self.committed >= 0 else None
        return max(self.plans, default=None)

    def planned(self, batch: int) -> PlannedBatch:
        return parse_offsets(self.plans[batch].encode())

    def read(self, name: str) -> bytes:
        return self.plans[int(name.removeprefix("offsets/"))].encode()

    def create(self, name: str, text: str) -> bool:
        number = int(name.removeprefix("offsets/"))
        return self.plans.setdefault(number, text) is text


def left(store: Any, ends: Mapping[int, int], *, stops_at: int = -1) -> list[PlannedRun]:
    """Leave the topic; return the runs, the last of which may be stopped."""
    runs: list[PlannedRun] = []

    def run(planned: PlannedRun) -> bool:
        assert planned.batch == store.last_batch("offsets")
        runs.append(replace(planned, batch=0))
        if len(runs) - 1 == stops_at:
            return False
        store.committed = store.last_batch("offsets")
        return True

    topic = DirectOpTopic(store, NAMES, lambda _: ends, lambda: NOW_MS)
    assert topic.leave(run) is (stops_at < 0)
    return runs


@pytest.mark.parametrize(
    "store", [Store(committed=-1), Store(PLAIN, committed=0), Store(PLAIN, PLAIN, committed=0)]
)
def test_a_checkpoint_that_does_not_know_the_topic_is_left_alone(store: Store) -> None:
    before = dict(store.plans)

    assert left(store, {}) == []
    assert store.plans == before


def test_what_is_unread_on_the_topic_is_read_before_anything_else() -> None:
    store = Store(OLD, committed=0)

    assert left(store, {0: 3, 1: 9}) == [WITH_TOPIC, WITHOUT_TOPIC]

    read, without = store.planned(1), store.planned(2)
    assert read.ends == {**parse_offsets(plan_of(OLD).encode()).ends, DIRECT: {0: 3, 1: 9}}
    assert without.ends == {topic: read.ends[topic] for topic in NAMES.read}
    assert read.timestamp_ms == without.timestamp_ms == NOW_MS
    assert read.conf == without.conf == {"a": "b"}


def test_a_topic_that_was_read_to_its_end_is_left_at_once() -> None:
    store = Store(OLD, committed=0)

    assert left(store, {0: 3, 1: 4}) == [WITHOUT_TOPIC]
    assert len(store.plans) == 2


def test_a_batch_that_was_planned_before_the_upgrade_is_run_as_planned() -> None:
    store = Store(OLD, OLD, committed=0)

    assert left(store, {0: 3, 1: 4}) == [WITH_TOPIC, WITHOUT_TOPIC]


@pytest.mark.parametrize("stops_at", [0, 1, 2])
def test_a_start_that_was_stopped_in_between_is_continued(stops_at: int) -> None:
    store, ends = Store(OLD, OLD, committed=0), {0: 3, 1: 9}
    whole = [WITH_TOPIC, WITH_TOPIC, WITHOUT_TOPIC]

    assert left(store, ends, stops_at=stops_at) == whole[: stops_at + 1]
    assert left(store, ends) == whole[stops_at:]
    assert DIRECT not in store.planned(3).ends
    assert left(store, ends) == []


def test_a_topic_that_was_made_again_has_nothing_unread() -> None:
    assert left(Store(OLD, committed=0), {0: 0, 1: 0}) == [WITHOUT_TOPIC]


def test_a_plan_that_the_replaced_job_wrote_meanwhile_is_run_and_not_overwritten() -> None:
    store = Store(OLD, committed=0)
    theirs = plan_of({**OLD, NAMES.op: {"0": 6, "1": 7}})

    def ends_asked(_: int) -> Mapping[int, int]:
        store.plans.setdefault(1, theirs)
        return {0: 3, 1: 4}

    runs: list[int] = []

    def run(planned: PlannedRun) -> bool:
        runs.append(planned.batch)
        store.committed = planned.batch
        return True

    topic: Any = store
    assert DirectOpTopic(topic, NAMES, ends_asked, lambda: NOW_MS).leave(run)
    assert (store.plans[1], runs) == (theirs, [1, 2])
