"""``checkback bench storm``: new transactions during a storm of check requests for old ones."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from checkback.bench import options
from checkback.bench.batches import Steady, touching
from checkback.bench.measures import Measure
from checkback.bench.options import Say
from checkback.bench.probe import RunningProbe, Visibility
from checkback.bench.query import Query
from checkback.bench.runs import BenchFindings, Run, run_of
from checkback.bench.stage import BenchSetting
from checkback.protocol.errors import OperationalError

TAKEN_UP_PER_S: Final = 15_000
"""Halves per second that a busy machine loads and reads, to estimate the earliest storm."""
TRIES: Final = 5
ASKED_TIMEOUT_S: Final = 1_800.0
MARGIN_S: Final = 2.0
"""Pause between quiet and storm, because deadlines are whole seconds."""


@dataclass(frozen=True)
class StormOptions:
    """Measure new transactions while very many checks are due.

    Very many halves are due for a check at once, which delays what comes after them.
    """

    pending: int = options.pending("Halves that are due at once.", smoke=2_000)
    rate: float = options.rate(smoke=20)
    quiet_seconds: float = options.seconds(60.0, "Duration of the quiet part.", smoke=3)
    storm_seconds: float = options.seconds(120.0, "Longest watch of the storm.", smoke=4)
    due_after_seconds: float | None = options.seconds(
        None, "Time from the first half to the storm; default: an estimate.", smoke=15
    )
    runs: int = options.runs(1)

    @property
    def due_after_s(self) -> float:
        """Time from the first half to the storm; an estimate where none was given."""
        loading_s = self.pending / TAKEN_UP_PER_S
        return self.due_after_seconds or loading_s + self.quiet_seconds + 10 * MARGIN_S


@dataclass(slots=True)
class StormBench:
    """The runs of one call.

    Args:
        stage: the stage of the runs.
        options: the options of the call.
        say: prints progress for a person.
    """

    stage: BenchSetting
    options: StormOptions
    say: Say
    runs: list[Run] = field(default_factory=list)
    _ratios: list[float] = field(default_factory=list)
    _worker_mib: list[float] = field(default_factory=list)

    def run(self) -> BenchFindings:
        """Do all runs.

        Raises:
            OperationalError: a run failed, or the storm began too early.
        """
        for number in range(self.options.runs):
            self._storm(number)
        measures = [
            Measure("visible_p99_in_storm", self._ratios, self.options.pending),
            Measure("worker_rss_in_storm", self._worker_mib, self.options.pending),
        ]
        return BenchFindings(measures, self.runs)

    def _storm(self, number: int) -> None:
        due_after_s = self.options.due_after_s
        for turn in range(TRIES):
            if self._was_quiet_before(f"storm-{number}-{turn}", number, due_after_s):
                return
            due_after_s *= 2
            self.say(f"the storm began too early; once more, {due_after_s:.0f} s after loading")
        raise OperationalError(
            "The storm began before the quiet part was measured.",
            remedy="Raise --due-after-seconds.",
        )

    def _was_quiet_before(self, name: str, number: int, due_after_s: float) -> bool:
        """Do one run; return False if the storm began too early, so that nothing was measured."""
        interval_ms = 3_600_000  # so that each half gets one request
        trial = self.stage.trial(name, check_interval_ms=interval_ms).create()
        with Query(trial, "job") as query:
            query.wait_for_batch()
            due_at_s = time.time() + due_after_s
            self.say(f"loads {self.options.pending:,} halves that are due at once")
            workload = replace(trial.workload, due_at_s=due_at_s)
            query.wait_for_rows(trial.load(self.options.pending, ops=False, workload=workload))
            is_quiet = time.time() + self.options.quiet_seconds + 3 * MARGIN_S <= due_at_s
            if is_quiet:
                seen = self._watch(query, due_at_s - time.time() + self.options.storm_seconds)
                self._report(query, number, seen, due_at_s * 1_000)
        trial.delete()
        return is_quiet

    def _watch(self, query: Query, seconds: float) -> Visibility:
        """Send new transactions until the watch is over and every old half got its request."""
        probe = query.trial.probe(self.options.rate, seconds, "probe")
        with RunningProbe(probe) as running:
            query.wait_until(running.is_over, seconds + 300)
            seen = running.result()
        query.wait_until(lambda: query.counts()["checks"] >= self.options.pending, ASKED_TIMEOUT_S)
        query.stop()
        return seen

    def _report(self, query: Query, number: int, seen: Visibility, due_ms: float) -> None:
        quiet_from_ms = float(seen.sent_ms[0]) + MARGIN_S * 1_000
        quiet = seen.between(quiet_from_ms, due_ms - MARGIN_S * 1_000)
        ended_ms = asked_ms(query.progress(), self.options.pending)
        over_ms = min(ended_ms, due_ms + self.options.storm_seconds * 1_000)
        over_ms = max(over_ms, due_ms + MARGIN_S * 1_000)
        in_storm = seen.between(due_ms, over_ms)
        batches = touching(query.batches(), due_ms, over_ms)
        p99_ms = {"quiet": quiet.quantile_ms(0.99), "storm": in_storm.quantile_ms(0.99)}
        facts = {
            "quiet_p50_ms": quiet.quantile_ms(0.5),
            "quiet_p99_ms": p99_ms["quiet"],
            "storm_p50_ms": in_storm.quantile_ms(0.5),
            "storm_p99_ms": p99_ms["storm"],
            "storm_s": (ended_ms - due_ms) / 1_000,
            "checks": query.counts()["checks"],
        }
        transactions = max(1, len(in_storm.sent_ms))
        run = run_of(query, "storm", number, Steady(batches), transactions, batches, facts)
        self.runs.append(run)
        self._ratios.append(p99_ms["storm"] / p99_ms["quiet"])
        self._worker_mib.append(query.watch.python_mib_max(due_ms, over_ms))
        self.say(
            f"storm {number}: {facts['checks']:,} checks in {facts['storm_s']:.0f} s, p99"
            f" {p99_ms['storm']:,.0f} ms, before it {p99_ms['quiet']:,.0f} ms"
        )


def asked_ms(progress: Sequence[tuple[float, Mapping[str, Any]]], pending: int) -> float:
    """Return when the job reported the last request, in ms since 1970.

    Args:
        progress: the job's progress lines, each with its arrival time in ms since 1970.
        pending: the number of requests.
    """
    asked = 0
    for at_ms, line in progress:
        asked += line["counts"].get("checks", 0)
        if asked >= pending:
            return at_ms
    return progress[-1][0]
