"""``python -m bench latency``: the time from commit to visible message, at a steady rate.

The unit is a batch: times differ between machines, but their ratio to the batch time hardly does.
Then the run sends nothing and measures empty batches. At last it has little to do: asleep, at ten
transactions per second, and with single commits.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from bench.measures import Measure
from bench.result import BenchFindings, Run, run_of
from bench.runs.batches import MeasuredBatch, Steady, median_ms, touching, within
from bench.runs.probe import Visibility, visibility
from bench.runs.query import MonitoredProcess, Query
from bench.runs.trial import BenchSetting, Trial
from bench.setting import Option, count, seconds
from checkback.protocol.errors import UsageError

LOW_RATE: Final = 10.0
LONE_RATE: Final = 0.25
"""A commit every four seconds: each finds the pipeline asleep."""
QUIET_SECONDS_MIN: Final = 5
SETTLE_S: Final = 2.0
"""After the last record a batch or two still run."""
BATCHES_LEAST: Final = 5
PATIENCE_S: Final = 20.0
"""How long to wait for this many batches on a busy machine."""
OPTIONS: Final = (
    Option("rate", seconds, 1_000.0, 50.0, "Transactions per second."),
    Option("seconds", seconds, 60.0, 4.0, "Duration of a repetition."),
    Option("idle_seconds", seconds, 15.0, 4.0, "Duration of one without transactions."),
    Option("quiet_seconds", seconds, 60.0, 5.0, "Duration of each quiet part."),
    Option("warm_up_seconds", seconds, 240.0, 3.0, "Warm-up before the first one."),
    Option("runs", count, 3, 1, "Repetitions."),
)


@dataclass(frozen=True, slots=True)
class Quiet:
    """A pipeline that has little to do: what sleeping costs, and what waking does."""

    idle_cores: float
    low_rate_cores: float
    lone: Visibility  # of commits that each wake the pipeline
    awake: Visibility  # the same while ticks keep it from sleeping

    @property
    def lone_to_awake(self) -> float:
        """How much longer half of the lone commits take because the pipeline slept."""
        return self.lone.quantile_ms(0.5) / self.awake.quantile_ms(0.5)


@dataclass(frozen=True, slots=True)
class Window:
    """One repetition."""

    visibility: Visibility
    batch_ms: float
    empty_ms: float  # of a batch with only ticks
    quiet: Quiet


@dataclass(slots=True)
class LatencyBench:
    """The runs of one call, after a warm-up."""

    stage: BenchSetting
    options: argparse.Namespace
    say: Callable[[str], None]
    runs: list[Run] = field(default_factory=list)

    def run(self) -> BenchFindings:
        """Do all runs.

        Raises:
            UsageError: a quiet part would end before its first single commit.
            OperationalError: a run failed, or a committed message did not become visible.
        """
        if self.options.quiet_seconds < QUIET_SECONDS_MIN:
            raise UsageError(f"--quiet-seconds is less than {QUIET_SECONDS_MIN}.")
        trial = self.stage.trial("latency").create()
        windows = self._job(trial)
        trial.delete()
        seen, quiet = [w.visibility for w in windows], [w.quiet for w in windows]
        facts = {
            "commit_to_visible_p50_ms": [times.quantile_ms(0.5) for times in seen],
            "commit_to_visible_p99_ms": [times.quantile_ms(0.99) for times in seen],
            "batch_ms": [window.batch_ms for window in windows],
            "empty_batch_ms": [window.empty_ms for window in windows],
            "lone_commit_p50_ms": [part.lone.quantile_ms(0.5) for part in quiet],
            "awake_commit_p50_ms": [part.awake.quantile_ms(0.5) for part in quiet],
        }
        return BenchFindings(self._measures(windows), self.runs, facts)

    def _job(self, trial: Trial) -> list[Window]:
        with Query(trial, "job") as query:
            query.wait_for_batch()
            self.say(f"warms up for {self.options.warm_up_seconds:.0f} s")
            visibility(query, self.options.rate, self.options.warm_up_seconds)
            windows = [self._window(query, number) for number in range(self.options.runs)]
            query.stop()
        return windows

    def _window(self, query: Query, number: int) -> Window:
        seen = visibility(query, self.options.rate, self.options.seconds)
        from_ms, to_ms = float(seen.sent_ms[0]), float(seen.sent_ms[-1])
        # Without even a tick a batch is held at its end until there is something to do, so that its
        # time means nothing.
        with query.trial.ticking():
            empty_ms = ticked_ms(query, self.options.idle_seconds)
        steady = Steady(touching(query.batches(), from_ms, to_ms))
        transactions = int(self.options.rate * (steady.to_ms - steady.from_ms) / 1_000)
        self.runs.append(run_of(query, "job", number, steady, transactions, steady.batches))
        found = Window(
            seen.between(from_ms, to_ms),
            median_ms(steady.batches),
            empty_ms,
            measure_quiet(query, self.options.quiet_seconds),
        )
        self.say(
            f"job {number}: p50 {found.visibility.quantile_ms(0.5):,.0f} ms, batch"
            f" {found.batch_ms:,.0f} ms, empty {found.empty_ms:,.0f} ms; idle"
            f" {found.quiet.idle_cores:.3f} core, lone commit"
            f" {found.quiet.lone.quantile_ms(0.5):,.0f} ms"
        )
        return found

    def _measures(self, windows: list[Window]) -> list[Measure]:
        values = {
            "visible_p50_to_batch": [w.visibility.quantile_ms(0.5) / w.batch_ms for w in windows],
            "visible_p99_to_batch": [w.visibility.quantile_ms(0.99) / w.batch_ms for w in windows],
            "batch_to_empty_batch": [w.batch_ms / w.empty_ms for w in windows],
            **quiet_values([window.quiet for window in windows]),
        }
        size = int(self.options.rate * self.options.seconds * self.options.runs)
        return [Measure(name, runs, size) for name, runs in values.items()]


def measure_quiet(query: Query, duration_s: float) -> Quiet:
    """Measure a running job that has little to do; each of the four parts takes the duration."""
    query.run_for(SETTLE_S)
    idle_cores = cores_while(query, lambda: query.run_for(duration_s))

    def probe(rate: float) -> Visibility:
        return visibility(query, rate, duration_s, has_rollbacks=False)

    low_rate_cores = cores_while(query, lambda: probe(LOW_RATE))
    query.run_for(SETTLE_S)
    lone = probe(LONE_RATE)
    with query.trial.ticking():
        awake = probe(LONE_RATE)
    return Quiet(idle_cores, low_rate_cores, lone, awake)


def quiet_values(found: Sequence[Quiet]) -> dict[str, list[float]]:
    """Return the values of the measures of quiet parts, by name."""
    return {
        "idle_cores": [quiet.idle_cores for quiet in found],
        "low_rate_cores": [quiet.low_rate_cores for quiet in found],
        "lone_commit_to_awake": [quiet.lone_to_awake for quiet in found],
    }


def cores_while(query: MonitoredProcess, run: Callable[[], object]) -> float:
    """Return how many cores the job's own processes take while something runs."""
    from_ms = time.time() * 1_000
    run()
    to_ms = time.time() * 1_000
    taken = query.watch.cpu_s_between(from_ms, to_ms)
    own_s = sum(cpu_s for kind, cpu_s in taken.items() if kind != "broker")
    return own_s / ((to_ms - from_ms) / 1_000)


def ticked_ms(query: MonitoredProcess, duration_s: float) -> float:
    """Return the median batch with only ticks, after at least that time and until enough ran."""
    from_ms, _ = query.run_for(duration_s)
    deadline_s = time.monotonic() + PATIENCE_S

    def found() -> list[MeasuredBatch]:
        return [batch for batch in within(query.batches(), from_ms, math.inf) if batch.rows]

    query.wait_until(
        lambda: len(found()) >= BATCHES_LEAST or time.monotonic() > deadline_s, 2 * PATIENCE_S
    )
    return median_ms(found())
