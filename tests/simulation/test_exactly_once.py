"""10,000 crashes of the exactly-once protocol; `python -m tests.simulation.exactly_once` goes on.

The sink is the real one, Kafka and Spark are simulated: see tests/simulation/exactly_once.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.simulation.exactly_once.fates import FAULTS, Chances
from tests.simulation.exactly_once.mutations import MUTATIONS, Mutation
from tests.simulation.exactly_once.run import Run, repeating_command, summary
from tests.simulation.exactly_once.worlds import KINDS, TWO_DRIVERS

ROOT = Path(__file__).parents[2]
CRASHES = 10_000
RANGES = 4
SEEDS_PER_RANGE = 1_000
MUTATION_SEEDS = 40
MUTATION_CRASHES = 40
EXPIRING_SEEDS = 20
EXPIRING_CRASHES = 10
LOSING_SEEDS = 30
LOSING_CRASHES = 20
RARE_SEEDS = 160
"""For what only one seed in forty shows."""
EFFECTS = {*FAULTS, "store state", "write offsets", "write commits", "consumer.consume"}
"""Awaits after whose effect a process can die; before it can before any."""


@pytest.fixture(autouse=True, scope="module")
def silence() -> Iterator[None]:
    """Log nothing: the lines of so much misfortune took a seventh of the time."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


class Seen(NamedTuple):
    """What a run met on its way."""

    crashes: int
    crashed_at: Counter[tuple[str, str]]
    met: Counter[str]
    ends: Counter[str]


@cache
def seen_by(seed: int) -> Seen:
    """Do the seed's ordinary run; two tests look at the first ones."""
    run = Run(seed).go()
    return Seen(run.fates.crashes, run.fates.crashed_at, run.fates.met, run.ends)


@pytest.mark.parametrize("number", range(RANGES))
def test_what_must_hold_holds_over_ten_thousand_crashes(number: int) -> None:
    crashes, seed = 0, number * SEEDS_PER_RANGE
    while crashes < CRASHES // RANGES:
        crashes += seen_by(seed).crashes
        seed += 1

    assert seed < (number + 1) * SEEDS_PER_RANGE, "the ranges overlap"


def test_the_runs_meet_whatever_can_happen() -> None:
    crashed_at, met, ends = Counter[tuple[str, str]](), Counter[str](), Counter[str]()
    for seed in range(60):
        seen = seen_by(seed)
        crashed_at += seen.crashed_at
        met += seen.met
        ends += seen.ends

    assert set(crashed_at) >= {(call, side) for call in EFFECTS for side in ("before", "after")}
    faults = {f"{call} {one.name.lower()}" for call, possible in FAULTS.items() for one in possible}
    assert set(met) >= faults | {"zombies", "slow markers", "two drivers", "leader changed"}
    assert set(met) >= {"markers deleted", "markers expired", "markers moved", "coordinator moves"}
    assert set(met) >= {"driver's clock set", "brokers' clock set", "commit after discard"}
    assert set(met) >= {"rules changed", "commit lost", "decided by other terms"}
    known = {"SimulatedCrash", "NoneType", "CheckpointError", "FencedError", "BrokerError"}
    assert set(ends) >= known


def test_halves_grow_too_old() -> None:
    met = Counter[str]()
    for seed in range(EXPIRING_SEEDS):
        met += Run(seed, EXPIRING_CRASHES, *KINDS["expiring"]).go().fates.met

    assert met["days passed"] > EXPIRING_SEEDS
    assert met["expired"] > EXPIRING_SEEDS


def test_a_job_ends_whose_topics_lost_what_was_read() -> None:
    met = Counter[str]()
    for seed in range(LOSING_SEEDS):
        run = Run(seed, LOSING_CRASHES, *KINDS["losing"]).go()
        assert run.is_refused == bool(run.fates.met["records lost"])
        met += run.fates.met

    assert met["records lost"] > met["topic grew past the old end"] > LOSING_SEEDS / 4


def test_one_seed_makes_one_run() -> None:
    """Also in another process, whose sets have another order."""
    here = summary(Run(6).go())
    repeated = repeating_command(6, 60).split()[1:]
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run(
        [sys.executable, *repeated],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert found.stdout == f"seed 6: {here}\n"
    assert "commit=" in here
    assert summary(Run(6).go()) == here
    assert summary(Run(7).go()) != here


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_of_the_protocol_is_caught(name: str) -> None:
    require_caught(MUTATIONS[name], range(MUTATION_SEEDS))


def require_caught(mutation: Mutation, seeds: Iterable[int]) -> None:
    """See that some seed shows the mutation, and that without it the same run passes."""
    tried: list[int] = []
    with mutation.broken(), pytest.raises(AssertionError) as failure:
        run_each(mutation, seeds, tried)

    [note] = failure.value.__notes__
    assert note.startswith("repeat: python -m tests.simulation.exactly_once ")
    run_each(mutation, tried[-1:], [])


def run_each(mutation: Mutation, seeds: Iterable[int], tried: list[int]) -> None:
    for seed in seeds:
        tried.append(seed)
        Run(seed, mutation.crashes, mutation.world, mutation.chances).go()


def test_two_drivers_over_a_log_that_can_be_overwritten_are_seen_to_plan_twice() -> None:
    """Why the worlds leave this out: see world_of."""
    world = replace(TWO_DRIVERS, state_partitions=1, overwrites=True)
    nothing = Mutation(nullcontext, world, Chances(turn=0.5, sleep=0.03), MUTATION_CRASHES)
    with pytest.raises(AssertionError, match="planned twice"):
        run_each(nothing, range(RARE_SEEDS), [])
