"""``checkback bench storm``: new transactions while a great many old ones are asked back."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from checkback.bench.batches import Steady, touching
from checkback.bench.measures import Measure
from checkback.bench.probe import RunningProbe, Visibility
from checkback.bench.query import Query
from checkback.bench.runs import Findings, Run, run_of
from checkback.bench.stage import Stage
from checkback.protocol.errors import OperationalError

TAKEN_UP_PER_S: Final = 15_000
"""Halves per second that a busy machine loads and takes up, to guess when the storm may begin."""
TRIES: Final = 5
ASKED_TIMEOUT_S: Final = 1_800.0
MARGIN_S: Final = 2.0
"""Between quiet and storm: deadlines are whole seconds."""


@dataclass(slots=True)
class StormBench:
    """The runs of one call.

    Args:
        stage: what they stand on.
        pending: halves that are due at once.
        transactions_per_s: of the new ones.
        quiet_s: how long they are watched before the storm.
        storm_s: how long they are watched in it, at most.
        due_after_s: from the beginning of loading to the storm, None for a guess.
        repetitions: how many.
        say: tells a person how far it is.
    """

    stage: Stage
    pending: int
    transactions_per_s: float
    quiet_s: float
    storm_s: float
    due_after_s: float | None
    repetitions: int
    say: Callable[[str], None]
    runs: list[Run] = field(default_factory=list)
    _ratios: list[float] = field(default_factory=list)
    _worker_mib: list[float] = field(default_factory=list)

    def run(self) -> Findings:
        """Do all runs.

        Raises:
            OperationalError: a run failed, or the storm began before all was ready for it.
        """
        for number in range(self.repetitions):
            self._storm(number)
        measures = [
            Measure("visible_p99_in_storm", self._ratios, self.pending),
            Measure("worker_rss_in_storm", self._worker_mib, self.pending),
        ]
        return Findings(measures, self.runs)

    def _storm(self, number: int) -> None:
        guess_s = self.pending / TAKEN_UP_PER_S + self.quiet_s + 10 * MARGIN_S
        due_after_s = self.due_after_s or guess_s
        for turn in range(TRIES):
            if self._was_quiet_before(f"storm-{number}-{turn}", number, due_after_s):
                return
            due_after_s *= 2
            self.say(f"the storm began too early; once more, {due_after_s:.0f} s after loading")
        raise OperationalError(
            "The storm began before the quiet before it was measured.",
            remedy="Give it more time: --due-after-seconds.",
        )

    def _was_quiet_before(self, name: str, number: int, due_after_s: float) -> bool:
        """Do one run; tell whether all was taken up in time. If not, nothing was measured."""
        interval_ms = 3_600_000  # so that each is asked once
        trial = self.stage.trial(name, check_interval_ms=interval_ms).create()
        with Query(trial, "job") as query:
            query.wait_for_batch()
            due_at_s = time.time() + due_after_s
            self.say(f"loads {self.pending:,} halves that are due at once")
            workload = replace(trial.workload, due_at_s=due_at_s)
            query.wait_for_rows(trial.load(self.pending, ops=False, workload=workload))
            is_quiet = time.time() + self.quiet_s + 3 * MARGIN_S <= due_at_s
            if is_quiet:
                seen = self._watch(query, due_at_s - time.time() + self.storm_s)
                self._report(query, number, seen, due_at_s * 1_000)
        trial.delete()
        return is_quiet

    def _watch(self, query: Query, seconds: float) -> Visibility:
        """Send new transactions until the watching is over and all old ones were asked."""
        probe = query.trial.probe(self.transactions_per_s, seconds, "probe")
        with RunningProbe(probe) as running:
            query.wait_until(running.is_over, seconds + 300)
            seen = running.result()
        query.wait_until(lambda: query.counts()["checks"] >= self.pending, ASKED_TIMEOUT_S)
        query.stop()
        return seen

    def _report(self, query: Query, number: int, seen: Visibility, due_ms: float) -> None:
        quiet_from_ms = float(seen.sent_ms[0]) + MARGIN_S * 1_000
        quiet = seen.between(quiet_from_ms, due_ms - MARGIN_S * 1_000)
        asked_ms = self._asked_ms(query)
        over_ms = min(asked_ms, due_ms + self.storm_s * 1_000)
        over_ms = max(over_ms, due_ms + MARGIN_S * 1_000)
        in_storm = seen.between(due_ms, over_ms)
        batches = touching(query.batches(), due_ms, over_ms)
        p99_ms = {"quiet": quiet.quantile_ms(0.99), "storm": in_storm.quantile_ms(0.99)}
        facts = {
            "quiet_p50_ms": quiet.quantile_ms(0.5),
            "quiet_p99_ms": p99_ms["quiet"],
            "storm_p50_ms": in_storm.quantile_ms(0.5),
            "storm_p99_ms": p99_ms["storm"],
            "storm_s": (asked_ms - due_ms) / 1_000,
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

    def _asked_ms(self, query: Query) -> float:
        """Return when the job told that the last of them was asked, ms since 1970."""
        asked = 0
        for at_ms, line in query.progress():
            asked += line["counts"].get("checks", 0)
            if asked >= self.pending:
                return at_ms
        return query.progress()[-1][0]
