"""10,000 crashes of the exactly-once protocol; `python -m tests.simulation.exactly_once` goes on.

The sink is the real one, Kafka and Spark are simulated: see tests/simulation/exactly_once.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from tests.simulation.exactly_once.fates import FAULTS, Chances
from tests.simulation.exactly_once.mutations import MUTATIONS, ONE_DRIVER, TOUCHED, TWO_DRIVERS
from tests.simulation.exactly_once.run import Run, World, repeating_command, summary

ROOT = Path(__file__).parents[2]
CRASHES = 10_000
RANGES = 4
SEEDS_PER_RANGE = 1_000
MUTATION_SEEDS = 40
MUTATION_CRASHES = 40
RARE_SEEDS = 160
"""For what only one seed in forty shows."""
EFFECTS = {
    *FAULTS,
    "store state",
    "write offsets",
    "write commits",
    "consumer.consume",
}
"""Awaits after whose effect a process can die; before it can before any."""


@pytest.mark.parametrize("number", range(RANGES))
def test_what_must_hold_holds_over_ten_thousand_crashes(number: int) -> None:
    crashes, seed = 0, number * SEEDS_PER_RANGE
    while crashes < CRASHES // RANGES:
        crashes += Run(seed).go().fates.crashes
        seed += 1

    assert seed < (number + 1) * SEEDS_PER_RANGE, "the ranges overlap"


def test_the_runs_meet_whatever_can_happen() -> None:
    crashed_at, met, ends = Counter[tuple[str, str]](), Counter[str](), Counter[str]()
    for seed in range(60):
        run = Run(seed).go()
        crashed_at += run.fates.crashed_at
        met += run.fates.met
        ends += run.ends

    assert set(crashed_at) >= {(call, side) for call in EFFECTS for side in ("before", "after")}
    faults = {f"{call} {one.name.lower()}" for call, possible in FAULTS.items() for one in possible}
    assert set(met) >= faults | {"zombies", "slow markers", "two drivers", "leader changed"}
    assert set(met) >= {"markers deleted", "markers expired", "markers moved", "coordinator moves"}
    known = {"Crash", "NoneType", "CheckpointError", "FencedError", "BrokerError"}
    assert set(ends) >= known


def test_one_seed_makes_one_run() -> None:
    """Also in another process, whose sets have another order."""
    here = summary(Run(5).go())
    repeated = repeating_command(5, 60).split()[1:]
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run(
        [sys.executable, *repeated],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert found.stdout == f"seed 5: {here}\n"
    assert summary(Run(5).go()) == here
    assert summary(Run(6).go()) != here


@pytest.mark.parametrize("world", [ONE_DRIVER, TWO_DRIVERS, TOUCHED])
def test_the_protocol_passes_where_its_mutations_are_caught(world: World) -> None:
    run_seeds(world)


def run_seeds(world: World, chances: Chances | None = None, seeds: int = MUTATION_SEEDS) -> None:
    for seed in range(seeds):
        Run(seed, MUTATION_CRASHES, world, chances).go()


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_of_the_protocol_is_caught(name: str) -> None:
    mutation = MUTATIONS[name]
    with mutation.broken(), pytest.raises(AssertionError) as failure:
        run_seeds(mutation.world)

    [note] = failure.value.__notes__
    assert note.startswith("repeat: python -m tests.simulation.exactly_once ")


def test_two_drivers_over_a_log_that_can_be_overwritten_are_seen_to_plan_twice() -> None:
    """Why the worlds leave this out: see world_of."""
    world = replace(TWO_DRIVERS, state_partitions=1, overwrites=True)
    with pytest.raises(AssertionError, match="planned twice"):
        run_seeds(world, Chances(turn=0.5, sleep=0.03), RARE_SEEDS)
