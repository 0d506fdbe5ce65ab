"""Low rates, checks, quiet and bursts in turn: whatever came before, a lone commit is visible soon.

``SOAK_S`` in the environment gives another length than ten minutes.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.integration.running import COMMIT, Pipeline, Topics
from tests.seeds import chosen_seed

SOAK_S: Final = float(os.environ.get("SOAK_S", "600"))
VISIBLE_S: Final = 3.0
LOOK_S: Final = 60.0
PER_S: Final = 2.0
BURST: Final = 500
Place = tuple[tuple[int, int], str]


class Traffic:
    """What other producers do meanwhile, each part for its share of the time."""

    def __init__(self, topics: Topics, real: str, until_s: float) -> None:
        self._topics, self._real, self._until_s = topics, real, until_s
        self._waiting: list[Place] = []
        self._number = 0
        self.ended: Exception | None = None

    def run(self) -> None:
        """Do all parts once."""
        parts: tuple[tuple[Callable[[float], None], float], ...] = (
            (self._asked, 0.3), (self._quiet, 0.2), (self._low_rate, 0.1), (self._burst, 0.0),
            (self._quiet, 0.1), (self._asked, 0.1), (self._burst, 0.0), (self._quiet, 0.2),
        )  # fmt: skip
        try:
            for part, share in parts:
                part(min(time.monotonic() + share * SOAK_S, self._until_s))
        except Exception as error:
            self.ended = error

    def _asked(self, until_s: float) -> None:
        """Store halves that are asked about each second, and answer them all at the end."""
        while time.monotonic() < until_s:
            self._waiting.append(self._half())
            time.sleep(1 / PER_S)
        while self._waiting:
            self._topics.send_op(*self._waiting.pop(), COMMIT)

    def _low_rate(self, until_s: float) -> None:
        while time.monotonic() < until_s:
            self._topics.send_op(*self._half(), COMMIT)
            time.sleep(1 / PER_S)

    def _burst(self, _: float) -> None:
        for at in [self._half() for _ in range(BURST)]:
            self._topics.send_op(*at, COMMIT)

    def _quiet(self, until_s: float) -> None:
        time.sleep(max(0.0, until_s - time.monotonic()))

    def _half(self) -> Place:
        self._number += 1
        name = f"other-{self._number}"
        return self._topics.send_half(name.encode(), self._real, partition=self._number % 2), name


class Probe:
    """Commits one message, and sees how long it takes until consumers get it."""

    def __init__(self, topics: Topics, real: str) -> None:
        self._topics, self._real = topics, real
        self._consumer = Consumer(
            {**topics.connection, "group.id": "probe", "isolation.level": "read_committed"}
        )
        self._consumer.assign([TopicPartition(real, number, 0) for number in range(2)])

    def seen_after_s(self, number: int) -> float:
        """Return after how long the message came."""
        name = f"lone-{number}"
        at = self._topics.send_half(name.encode(), self._real)
        self._topics.send_op(at, name, COMMIT)
        sent_s = time.monotonic()
        while (took_s := time.monotonic() - sent_s) < LOOK_S:
            message = self._consumer.poll(0.1)
            if message is not None and message.value() == name.encode():
                break
        return took_s

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()


@pytest.mark.nightly
@pytest.mark.timeout(1_800)
def test_a_lone_commit_is_visible_within_three_seconds_at_any_time(
    topics: Topics, tmp_path: Path
) -> None:
    """After minutes of checks that were all answered, the job read nothing for two minutes."""
    chance = random.Random(chosen_seed())
    settings = topics.settings(
        tmp_path / "checkpoint",
        transaction_timeout_ms=1_000,
        check_interval_ms=1_000,
        check_max=60_000,
    )
    real, lone = f"{topics.prefix}paid", f"{topics.prefix}lone"
    topics.create(settings, [real, lone], ["g"])
    probe, took_s = Probe(topics, lone), dict[float, float]()
    with Pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started")
        probe.seen_after_s(0)  # the first batches are slower
        began_s = time.monotonic()
        traffic = Traffic(Topics(topics.bootstrap_servers, topics.prefix), real, began_s + SOAK_S)
        thread = threading.Thread(target=traffic.run)
        thread.start()
        while thread.is_alive():
            at_s = round(time.monotonic() - began_s, 1)
            took_s[at_s] = round(probe.seen_after_s(len(took_s) + 1), 2)
            time.sleep(chance.uniform(0.1, 6.0))
        assert pipeline.terminate() == 0
    probe.close()

    print(f"{len(took_s)} lone commits, the slowest after {max(took_s.values())} s")
    assert traffic.ended is None
    assert {at_s: one for at_s, one in took_s.items() if one > VISIBLE_S} == {}
