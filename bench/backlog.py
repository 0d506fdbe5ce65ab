"""``python -m bench backlog``: what very many pending transactions cost, and a storm of checks.

First the job resolves transactions, idles and restarts, with nothing pending and with many pending
halves. Then as many halves are due for a check at once while new transactions come.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from bench.latency import ticked_ms
from bench.result import MILLION, Measure, Run, in_turn, run_of
from bench.runs.batches import Steady, steady_part, touching
from bench.runs.probe import Visibility, visibility
from bench.runs.query import Query
from bench.runs.samples import PYTHON_KINDS
from bench.runs.trial import Trial
from bench.setting import Bench, Option, say
from checkback.protocol.errors import OperationalError

NONE: Final = "none"
MANY: Final = "many"
EMPTY_BATCH_MS: Final = "empty_batch_ms"
"""The fact of a run that holds its median batch without transactions."""
WARM_UP: Final = 0.25
TAKEN_UP_PER_S: Final = 5_000
"""Halves per second that even a busy machine loads and reads, to estimate the earliest storm."""
ASKED_TIMEOUT_S: Final = 1_800.0
MARGIN_S: Final = 2.0
"""Pause between quiet and storm, because deadlines are whole seconds."""
OPTIONS: Final = (
    Option("body_bytes", 1_024, None, "Message size."),
    Option("pending", MILLION, 4_000, "Pending halves."),
    Option("transactions", 600_000, 4_000, "Transactions per run beside them."),
    Option("runs", 3, 1, "Runs of each kind; of one storm."),
    Option("batch_events", 250_000, 2_000, "Most halves and ops that one batch reads."),
    Option("idle_seconds", 20.0, 4.0, "Duration without transactions."),
    Option("rate", 1_000.0, 20.0, "Transactions per second around the storm."),
    Option("quiet_seconds", 60.0, 3.0, "Duration before the storm."),
    Option("storm_seconds", 120.0, 4.0, "Longest watch of the storm."),
)


@dataclass(slots=True)
class BacklogBench(Bench):
    """The runs of one call."""

    _first_batch_s: list[float] = field(default_factory=list)

    def measure(self) -> list[Measure]:
        """Do all runs; return the measures."""
        none, many = self.stage.trial("pending-none").create(), self._with_pending()
        for number in range(self.options.runs):
            for trial, kind in in_turn([(none, NONE), (many, MANY)], number):
                self._work(trial, kind, number)
            self._restart(many, number)
        none.delete()
        many.delete()
        measures = measures_of(self.runs, self._first_batch_s, self.options.pending)
        return [*measures, *self._storm()]

    def _with_pending(self) -> Trial:
        trial = self.stage.trial("pending-many").create()
        say(f"loads {self.options.pending:,} halves without an op")
        written = trial.load(self.options.pending, has_ops=False)
        with Query(trial, "take-up") as query:
            query.wait_for_rows(written)
            query.stop()
        return trial

    def _work(self, trial: Trial, kind: str, number: int) -> None:
        written = trial.load(self.options.transactions)
        with Query(trial, f"work-{number}") as query:
            query.wait_for_rows(2 * written)
            steady = steady_part(query.batches(), WARM_UP)
            with trial.ticking():
                idle_ms = ticked_ms(query, self.options.idle_seconds)
            query.stop()
        pending = query.progress()[-1][1]["pending"]
        facts = {"pending": pending, EMPTY_BATCH_MS: idle_ms}
        run = run_of(query, kind, number, steady, steady.rows // 2, facts)
        self.runs.append(run)
        say(
            f"{kind} {number}: {pending:,} pending, {run.transactions_per_s:,.0f} transactions/s,"
            f" idle batch {idle_ms:,.0f} ms"
        )

    def _restart(self, trial: Trial, number: int) -> None:
        with Query(trial, f"restart-{number}") as query:
            first = query.wait_for_batch()
            query.stop()
        self._first_batch_s.append((first.ended_ms - query.launched_ms) / 1_000)

    def _storm(self) -> list[Measure]:
        """Let all halves be due at once, and send new transactions before and meanwhile."""
        hour_ms = 3_600_000  # so that each half gets one request
        trial = self.stage.trial("storm", check_interval_ms=hour_ms).create()
        with Query(trial, "job") as query:
            query.wait_for_batch()
            due_at_s = time.time() + due_after_s(self.options)
            say(f"loads {self.options.pending:,} halves that are due at once")
            workload = replace(trial.workload, due_at_s=due_at_s)
            query.wait_for_rows(trial.load(self.options.pending, has_ops=False, workload=workload))
            left_s = due_at_s - time.time()
            if left_s < self.options.quiet_seconds + 3 * MARGIN_S:
                raise OperationalError(
                    "The storm began before the quiet part was measured.",
                    remedy="Measure with fewer --pending halves, or where nothing else runs.",
                )
            seen = visibility(query, self.options.rate, left_s + self.options.storm_seconds)
            query.wait_until(
                lambda: query.counts()["checks"] >= self.options.pending, ASKED_TIMEOUT_S
            )
            query.stop()
        measures = self._storm_measures(query, seen, due_at_s * 1_000)
        trial.delete()
        return measures

    def _storm_measures(self, query: Query, seen: Visibility, due_ms: float) -> list[Measure]:
        quiet_from_ms = float(seen.sent_ms[0]) + MARGIN_S * 1_000
        quiet = seen.between(quiet_from_ms, due_ms - MARGIN_S * 1_000)
        ended_ms = asked_ms(query.progress(), self.options.pending)
        over_ms = min(ended_ms, due_ms + self.options.storm_seconds * 1_000)
        over_ms = max(over_ms, due_ms + MARGIN_S * 1_000)
        in_storm = seen.between(due_ms, over_ms)
        steady = Steady(touching(query.batches(), due_ms, over_ms))
        facts = {
            "quiet_p50_ms": quiet.quantile_ms(0.5),
            "quiet_p99_ms": quiet.quantile_ms(0.99),
            "storm_p50_ms": in_storm.quantile_ms(0.5),
            "storm_p99_ms": in_storm.quantile_ms(0.99),
            "storm_s": (ended_ms - due_ms) / 1_000,
            "checks": query.counts()["checks"],
        }
        transactions = max(1, len(in_storm.sent_ms))
        self.runs.append(run_of(query, "storm", 0, steady, transactions, facts))
        say(
            f"storm: {facts['checks']:,} checks in {facts['storm_s']:.0f} s, p99"
            f" {facts['storm_p99_ms']:,.0f} ms, before it {facts['quiet_p99_ms']:,.0f} ms"
        )
        ratio = facts["storm_p99_ms"] / facts["quiet_p99_ms"]
        worker_mib = query.watch.rss_mib_max(PYTHON_KINDS, due_ms, over_ms)
        pending = self.options.pending
        return [
            Measure("visible_p99_in_storm", [ratio], pending),
            Measure("worker_rss_in_storm", [worker_mib], pending),
        ]


def due_after_s(options: argparse.Namespace) -> float:
    """Return the estimated time from the first half to the earliest storm."""
    loading_s = float(options.pending) / TAKEN_UP_PER_S
    return loading_s + float(options.quiet_seconds) + 10 * MARGIN_S


def measures_of(runs: Sequence[Run], first_batch_s: Sequence[float], pending: int) -> list[Measure]:
    """Return the measures of pending halves; those that compare divide runs of the same number."""
    none, many = ([run for run in runs if run.kind == kind] for kind in (NONE, MANY))
    pairs = list(zip(many, none, strict=True))
    is_more = pending >= 10 * MILLION
    found = {
        "idle_batch_with_ten_times_pending" if is_more else "idle_batch_with_pending": [
            above.facts[EMPTY_BATCH_MS] / below.facts[EMPTY_BATCH_MS] for above, below in pairs
        ],
        "throughput_with_pending": [
            above.transactions_per_s / below.transactions_per_s for above, below in pairs
        ],
        "worker_rss_with_pending": [run.python_mib for run in many],
        "first_batch_after_restart": first_batch_s,
    }
    return [Measure(name, values, pending) for name, values in found.items()]


def asked_ms(progress: Sequence[tuple[float, Mapping[str, Any]]], pending: int) -> float:
    """Return when the job reported the last request, in ms since 1970."""
    asked = 0
    for at_ms, line in progress:
        asked += line["counts"].get("checks", 0)
        if asked >= pending:
            return at_ms
    return progress[-1][0]
