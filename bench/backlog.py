"""``checkback bench pending``: what pending transactions cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from checkback.bench import options
from checkback.bench.batches import steady_part
from checkback.bench.idle import empty_ms
from checkback.bench.measures import MILLION, Measure
from checkback.bench.options import Say
from checkback.bench.query import Query
from checkback.bench.runs import BenchFindings, Run, run_of
from checkback.bench.stage import BenchSetting, Trial

NONE: Final = "none"
MANY: Final = "many"
KINDS: Final = (NONE, MANY)
EMPTY_BATCH_MS: Final = "empty_batch_ms"
"""The fact of a run that holds its median batch without transactions."""


@dataclass(frozen=True)
class PendingOptions:
    """Measure what many pending halves cost.

    Resolves transactions, idles and restarts, with nothing pending and with many pending halves.
    """

    pending: int = options.pending("Pending halves.", smoke=4_000)
    transactions: int = options.transactions(600_000, smoke=4_000)
    runs: int = options.runs()
    batch_events: int = options.batch_events(250_000)
    warm_up: float = options.warm_up()
    idle_seconds: float = options.seconds(20.0, "Duration of one without transactions.", smoke=4)


@dataclass(slots=True)
class PendingBench:
    """The runs of one call: the same work with nothing pending and with many pending halves.

    Args:
        stage: the stage of the runs.
        options: the options of the call.
        say: prints progress for a person.
    """

    stage: BenchSetting
    options: PendingOptions
    say: Say
    runs: list[Run] = field(default_factory=list)
    _first_batch_s: list[float] = field(default_factory=list)

    def run(self) -> BenchFindings:
        """Do all runs.

        Raises:
            OperationalError: a run failed.
        """
        none, many = self.stage.trial("pending-none").create(), self._with_pending()
        for number in range(self.options.runs):
            self._work(none, NONE, number)
            self._work(many, MANY, number)
            self._restart(many, number)
        none.delete()
        many.delete()
        measures = measures_of(self.runs, self._first_batch_s, self.options.pending)
        idle_ms = {f"idle_batch_ms_{kind}": _idle_ms(self.runs, kind) for kind in KINDS}
        return BenchFindings(measures, self.runs, idle_ms)

    def _with_pending(self) -> Trial:
        trial = self.stage.trial("pending-many").create()
        self.say(f"loads {self.options.pending:,} halves without an op")
        written = trial.load(self.options.pending, ops=False)
        with Query(trial, "take-up") as query:
            query.wait_for_rows(written)
            query.stop()
        return trial

    def _work(self, trial: Trial, kind: str, number: int) -> None:
        written = trial.load(self.options.transactions)
        with Query(trial, f"work-{number}") as query:
            query.wait_for_rows(2 * written)
            steady = steady_part(query.batches(), self.options.warm_up)
            idle_ms = empty_ms(query, self.options.idle_seconds)
            query.stop()
        pending = query.progress()[-1][1]["pending"]
        facts = {"pending": pending, EMPTY_BATCH_MS: idle_ms}
        run = run_of(query, kind, number, steady, steady.rows // 2, query.batches(), facts)
        self.runs.append(run)
        self.say(
            f"{kind} {number}: {pending:,} pending, {run.transactions_per_s:,.0f} transactions/s,"
            f" idle batch {idle_ms:,.0f} ms"
        )

    def _restart(self, trial: Trial, number: int) -> None:
        with Query(trial, f"restart-{number}") as query:
            first = query.wait_for_batch()
            query.stop()
        self._first_batch_s.append((first.ended_ms - query.launched_ms) / 1_000)


def measures_of(runs: Sequence[Run], first_batch_s: Sequence[float], pending: int) -> list[Measure]:
    """Return the measures; those that compare divide runs of the same number.

    Args:
        runs: the runs of both kinds, in the order of their numbers.
        first_batch_s: from the start of a process to the end of its first batch, per restart.
        pending: the number of pending halves.
    """
    none, many = ([run for run in runs if run.kind == kind] for kind in KINDS)
    idle = [
        above / below
        for above, below in zip(_idle_ms(runs, MANY), _idle_ms(runs, NONE), strict=True)
    ]
    throughput = [
        above.transactions_per_s / below.transactions_per_s
        for above, below in zip(many, none, strict=True)
    ]
    is_more = pending >= 10 * MILLION
    idle_name = "idle_batch_with_ten_times_pending" if is_more else "idle_batch_with_pending"
    return [
        Measure(idle_name, idle, pending),
        Measure("throughput_with_pending", throughput, pending),
        Measure("worker_rss_with_pending", [run.python_mib for run in many], pending),
        Measure("first_batch_after_restart", first_batch_s, pending),
    ]


def _idle_ms(runs: Sequence[Run], kind: str) -> list[float]:
    return [run.facts[EMPTY_BATCH_MS] for run in runs if run.kind == kind]
