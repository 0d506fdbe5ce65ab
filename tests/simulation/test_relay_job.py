"""Crashes of drivers and relays with switches and zombies (docs/decisions/relay.md).

`python -m tests.simulation.relay_world SEED` repeats a life; `--crashes N` goes on from there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final
from unittest.mock import patch

import pytest
from tests.simulation.relay_world import Driver, FakeDecidedTopic, Life, Switch

from checkback.protocol.decided import Closed, Taken
from checkback.state import RelayLimits
from checkback.streaming.batch.terms import TaskTerms
from checkback.streaming.relay import switch

MET: Final = {"delivered", "discarded", "zombie driver", "zombie relay"}
SEEDS: Final = 150


def lives(first_seed: int, crashes_wanted: int) -> Counter[str]:
    crashes, met, seed = 0, Counter[str](), first_seed
    while crashes < crashes_wanted:
        world = Life(seed).go()
        crashes, met, seed = crashes + world.crashes, met + world.met, seed + 1
    return met


@pytest.mark.parametrize("number", range(2))
def test_what_must_hold_holds_over_crashes(number: int) -> None:
    assert lives(number * 10_000, 300).keys() >= MET


def closed_without_a_generation(
    topic: FakeDecidedTopic, read: Mapping[int, int], taken_from: Mapping[int, int]
) -> None:
    position = max(topic.world.position, taken_from[0], topic.marked)
    topic._commit([Closed(max(position, read[0]))], 0, max(position, read[0]))


def limits_without_floor(terms: TaskTerms, _: int) -> RelayLimits:
    spans = terms.relay[0].spans if terms.relay else ()
    return RelayLimits(tuple((span.ops_from, span.halves_from) for span in spans))


MUTATIONS: Final[dict[str, tuple[Any, str, Callable[..., Any]]]] = {
    "rule 8: no floor": (TaskTerms, "limits_of", limits_without_floor),
    "rule 8: not by the marks' time": (
        TaskTerms, "read_until_of", lambda terms, _: terms.read_until_ms,
    ),
    "rule 9: the job takes what relays take": (
        Driver, "is_taken", staticmethod(lambda _, __: False),
    ),
    "rule 9: a plan that others may overtake": (switch, "create_plan", lambda *_: True),
    "rule 9: own ops before CLOSED was read": (Switch, "_read_to_the_end", lambda *_: True),
    "rule 9: closed beside a relay": (
        FakeDecidedTopic, "close_relays", closed_without_a_generation,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTATIONS)
def test_what_is_left_out_is_missed(name: str) -> None:
    owner, attribute, instead = MUTATIONS[name]
    with patch.object(owner, attribute, instead), pytest.raises(AssertionError):
        live_all()


def live_all() -> None:
    for seed in range(SEEDS):
        Life(seed).go()


@pytest.mark.parametrize("relay", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_a_repartition_drops_no_switch(seed: int, relay: bool) -> None:
    """A start dies once it has let relays take the ops; a repartition drops the plan that it made.

    The next start found no sign of relays in its checkpoint, and took the ops as well.
    """
    life = Life(seed)
    world = life.world

    def step_until(holds: Callable[[], object]) -> None:
        for _ in range(3_000):
            if holds():
                return
            world.produce() if world.random.random() < 0.2 else life._step_all()
        raise AssertionError("it did not come about")

    life._start_driver(relay=False)
    step_until(lambda: len(world.commits) > 2)
    life._start_driver(relay=True)
    step_until(lambda: any(isinstance(one, Taken) for one in world.decided))
    life._start_relay()
    life._repartition()
    step_until(lambda: world.met["delivered"] > 2)
    life._calm_down(relay=relay)
