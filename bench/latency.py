"""``python -m bench latency``: the time from commit to visible message, at a steady rate.

The unit is a batch: times differ between machines, but their ratio to the batch time hardly does.
Then the run sends nothing and measures empty batches. At last it has little to do: asleep, at ten
transactions per second, and with single commits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from bench.result import Measure, run_of
from bench.runs.batches import MeasuredBatch, Steady, median_ms, touching
from bench.runs.probe import Visibility, visibility
from bench.runs.query import MonitoredProcess, Query
from bench.setting import Bench, Option, say
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
    Option("body_bytes", 1_024, None, "Message size."),
    Option("rate", 1_000.0, 50.0, "Transactions per second."),
    Option("seconds", 60.0, 4.0, "Duration of a repetition."),
    Option("idle_seconds", 15.0, 4.0, "Duration of one without transactions."),
    Option("quiet_seconds", 60.0, 5.0, "Duration of each quiet part."),
    Option("warm_up_seconds", 240.0, 3.0, "Warm-up before the first one."),
    Option("runs", 3, 1, "Repetitions."),
)


class LatencyBench(Bench):
    """The repetitions of one call, after a warm-up."""

    __slots__ = ()

    def measure(self) -> list[Measure]:
        """Do all runs; return the measures."""
        if self.options.quiet_seconds < QUIET_SECONDS_MIN:
            raise UsageError(f"--quiet-seconds is less than {QUIET_SECONDS_MIN}.")
        trial = self.stage.trial("latency").create()
        with Query(trial, "job") as query:
            query.wait_for_batch()
            say(f"warms up for {self.options.warm_up_seconds:.0f} s")
            visibility(query, self.options.rate, self.options.warm_up_seconds)
            found = [self._repetition(query, number) for number in range(self.options.runs)]
            query.stop()
        trial.delete()
        size = int(self.options.rate * self.options.seconds * self.options.runs)
        return [Measure(name, [values[name] for values in found], size) for name in found[0]]

    def _repetition(self, query: Query, number: int) -> dict[str, float]:
        seen = visibility(query, self.options.rate, self.options.seconds)
        from_ms, to_ms = float(seen.sent_ms[0]), float(seen.sent_ms[-1])
        # Without even a tick a batch is held at its end until there is something to do, so that its
        # time means nothing.
        with query.trial.ticking():
            empty_ms = ticked_ms(query, self.options.idle_seconds)
        steady = Steady(touching(query.batches(), from_ms, to_ms))
        batch_ms = median_ms(steady.batches)
        times = seen.between(from_ms, to_ms)
        p50_ms, p99_ms = times.quantile_ms(0.5), times.quantile_ms(0.99)
        quiet = quiet_values(query, self.options.quiet_seconds)
        facts = {"p50_ms": p50_ms, "p99_ms": p99_ms, "empty_batch_ms": empty_ms, **quiet}
        transactions = int(self.options.rate * (steady.to_ms - steady.from_ms) / 1_000)
        self.runs.append(run_of(query, "job", number, steady, transactions, facts))
        say(
            f"job {number}: p50 {p50_ms:,.0f} ms, batch {batch_ms:,.0f} ms, empty {empty_ms:,.0f}"
            f" ms; idle {quiet['idle_cores']:.3f} core, lone commit {quiet['lone_ms']:,.0f} ms"
        )
        return {
            "visible_p50_to_batch": p50_ms / batch_ms,
            "visible_p99_to_batch": p99_ms / batch_ms,
            "batch_to_empty_batch": batch_ms / empty_ms,
            "idle_cores": quiet["idle_cores"],
            "low_rate_cores": quiet["low_rate_cores"],
            "lone_commit_to_awake": quiet["lone_ms"] / quiet["awake_ms"],
        }


def quiet_values(query: Query, duration_s: float) -> dict[str, float]:
    """Measure a running job that has little to do; each of the four parts takes the duration."""
    query.run_for(SETTLE_S)
    idle_cores = cores_while(query, lambda: query.run_for(duration_s))

    def probe(rate: float) -> Visibility:
        return visibility(query, rate, duration_s, has_rollbacks=False)

    low_rate_cores = cores_while(query, lambda: probe(LOW_RATE))
    query.run_for(SETTLE_S)
    lone_ms = probe(LONE_RATE).quantile_ms(0.5)
    with query.trial.ticking():
        awake_ms = probe(LONE_RATE).quantile_ms(0.5)
    return {
        "idle_cores": idle_cores,
        "low_rate_cores": low_rate_cores,
        "lone_ms": lone_ms,
        "awake_ms": awake_ms,
    }


def cores_while(
    query: MonitoredProcess, run: Callable[[], object], *others: MonitoredProcess
) -> float:
    """Return how many cores the own processes of a job, and of others, take while something runs.

    The broker's are left out.
    """
    from_ms = time.time() * 1_000
    run()
    to_ms = time.time() * 1_000
    taken = [one.watch.cpu_s_between(from_ms, to_ms) for one in (query, *others)]
    own_s = sum(cpu_s for one in taken for kind, cpu_s in one.items() if kind != "broker")
    return own_s / ((to_ms - from_ms) / 1_000)


def ticked_ms(query: MonitoredProcess, duration_s: float) -> float:
    """Return the median batch with only ticks, after at least that time and until enough ran."""
    from_ms = time.time() * 1_000
    query.run_for(duration_s)
    deadline_s = time.monotonic() + PATIENCE_S

    def found() -> list[MeasuredBatch]:
        return [batch for batch in query.batches() if batch.rows and batch.started_ms >= from_ms]

    query.wait_until(
        lambda: len(found()) >= BATCHES_LEAST or time.monotonic() > deadline_s, 2 * PATIENCE_S
    )
    return median_ms(found())
