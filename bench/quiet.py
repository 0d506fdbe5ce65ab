"""Measures a pipeline that has little to do: what sleeping costs, and what waking does."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from checkback.bench.idle import ticking
from checkback.bench.measures import Measure
from checkback.bench.probe import RunningProbe, Visibility
from checkback.bench.query import Query

LOW_RATE: Final = 10.0
LONE_RATE: Final = 0.25
"""A commit every four seconds: each finds the pipeline asleep, and its small batches unspaced."""
SETTLE_S: Final = 2.0
"""After the last record a batch or two still run."""


@dataclass(frozen=True, slots=True)
class Quiet:
    """One repetition.

    Args:
        idle_cores: processor time per second with nothing to do, the broker's left out.
        low_rate_cores: the same at LOW_RATE transactions per second.
        lone: visibility of commits that each wake the pipeline.
        awake: visibility of the same while ticks keep it from sleeping.
    """

    idle_cores: float
    low_rate_cores: float
    lone: Visibility
    awake: Visibility

    @property
    def lone_to_awake(self) -> float:
        """How much longer half of the lone commits take because the pipeline slept."""
        return self.lone.quantile_ms(0.5) / self.awake.quantile_ms(0.5)


def measure_quiet(query: Query, seconds: float, number: int) -> Quiet:
    """Measure each of the four for a span of time.

    Args:
        query: a running job with nothing to do.
        seconds: how long each takes.
        number: of the repetition.
    """

    def probe(rate: float, name: str) -> tuple[Visibility, float]:
        found: list[Visibility] = []
        cores = cores_while(query, lambda: found.append(_probed(query, rate, seconds, name)))
        return found[0], cores

    query.run_for(SETTLE_S)
    idle_cores = cores_while(query, lambda: query.run_for(seconds))
    _, low_rate_cores = probe(LOW_RATE, f"low-rate-{number}")
    query.run_for(SETTLE_S)
    lone, _ = probe(LONE_RATE, f"lone-{number}")
    with ticking(query.trial):
        awake, _ = probe(LONE_RATE, f"awake-{number}")
    return Quiet(idle_cores, low_rate_cores, lone, awake)


def cores_while(query: Query, run: Callable[[], object]) -> float:
    """Return how many cores the job's own processes take while something runs."""
    from_ms = time.time() * 1_000
    run()
    to_ms = time.time() * 1_000
    taken = query.watch.cpu_s_between(from_ms, to_ms)
    own_s = sum(cpu_s for kind, cpu_s in taken.items() if kind != "broker")
    return own_s / ((to_ms - from_ms) / 1_000)


def quiet_measures(found: list[Quiet], transactions: int) -> list[Measure]:
    """Return the measures of all repetitions.

    Args:
        found: the repetitions.
        transactions: number of all transactions of the verb's runs, for the bounds.
    """
    return [
        Measure("idle_cores", [one.idle_cores for one in found], transactions),
        Measure("low_rate_cores", [one.low_rate_cores for one in found], transactions),
        Measure("lone_commit_to_awake", [one.lone_to_awake for one in found], transactions),
    ]


def _probed(query: Query, rate: float, seconds: float, name: str) -> Visibility:
    planned = query.trial.probe(rate, seconds, name)
    committing = replace(planned, workload=replace(planned.workload, has_rollbacks=False))
    with RunningProbe(committing) as running:
        query.wait_until(running.is_over, seconds + 300)
        return running.result()
