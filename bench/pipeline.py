"""``python -m bench pipeline``: how fast the job turns loaded transactions into final messages.

The transactions wait in Kafka. Beside the job run, on request: Spark's own Kafka sink moving the
same records, the job with the Delta ledger, the job with access control (100 accounts sign halves
and ops), and Kafka Streams, which needs a JDK.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from bench.measures import Measure, in_turn
from bench.result import BenchFindings, Run, run_of
from bench.runs.batches import steady_part
from bench.runs.kafka_streams import StreamsRun
from bench.runs.load import ends_of
from bench.runs.query import Query, stateless_query
from bench.runs.trial import BenchSetting, Trial
from bench.runs.workload import commits_among
from bench.setting import Option, count
from checkback.protocol.errors import OperationalError, UsageError

STATELESS: Final = "stateless"
LEDGER: Final = "ledger"
ACCESS: Final = "access-control"
STREAMS: Final = "kafka-streams"
COMPARISONS: Final = (STATELESS, LEDGER, ACCESS, STREAMS)
ACCOUNTS: Final = 100
OPTIONS: Final = (
    Option("transactions", count, 1_000_000, 3_000, "Transactions per run."),
    Option(
        "warm_up_transactions", count, 2_000_000, 1_000, "Those before, while the JVM compiles."
    ),
    Option("runs", count, 3, 1, "Runs of each kind."),
    Option("batch_events", count, 1_000_000, 2_000, "Most halves and ops that one batch reads."),
    Option("compare", str, f"{STATELESS},{LEDGER}", None, f"Of {','.join(COMPARISONS)}, or none."),
)


def comparisons_of(compare: str) -> list[str]:
    """Return the chosen comparisons.

    Raises:
        UsageError: there is no comparison with this name.
    """
    chosen = [] if compare == "none" else compare.split(",")
    if unknown := set(chosen) - set(COMPARISONS):
        raise UsageError(
            f"--compare has {', '.join(sorted(unknown))}.",
            remedy=f"There are {', '.join(COMPARISONS)}, and none.",
        )
    return chosen


@dataclass(slots=True)
class PipelineBench:
    """The runs of one call; their order alternates, because a machine's speed changes."""

    stage: BenchSetting
    options: argparse.Namespace
    say: Callable[[str], None]
    runs: list[Run] = field(default_factory=list)

    def run(self) -> BenchFindings:
        """Do all runs.

        Raises:
            UsageError: there is no comparison with a chosen name.
            OperationalError: a run failed, or wrote a wrong number of messages.
        """
        chosen = comparisons_of(self.options.compare)
        variants = [partial(self._variant, name) for name in (ACCESS, LEDGER) if name in chosen]
        for number in range(self.options.runs):
            for run in in_turn([partial(self._usual, chosen), *variants], number):
                run(number)
        return BenchFindings(self._measures(), self.runs)

    def _usual(self, chosen: list[str], number: int) -> None:
        """Run the job, and beside it what reads the same records."""
        trial = self._loaded(f"pipeline-{number}")
        kinds: list[Callable[[Trial, int], None]] = [partial(self._job, "job")]
        if STATELESS in chosen:
            kinds.insert(0, self._stateless)
        if STREAMS in chosen:
            kinds.append(self._kafka_streams)
        for run in in_turn(kinds, number):
            run(trial, number)
        trial.delete()

    def _variant(self, comparison: str, number: int) -> None:
        """Run the job with something else about it than in the run `job`."""
        trial = self._loaded(f"{comparison}-{number}", comparison)
        self._job(comparison.replace("-", "_"), trial, number)
        trial.delete()

    def _loaded(self, name: str, comparison: str = "") -> Trial:
        changes: dict[str, object] = {}
        if comparison == LEDGER:
            changes["ledger"] = str(self.stage.folder / name / "ledger")
        trial = self.stage.trial(name, **changes).create()
        if comparison == ACCESS:
            trial.control_access(ACCOUNTS)
        transactions = self.options.warm_up_transactions + self.options.transactions
        self.say(f"loads {transactions:,} transactions")
        trial.load(transactions)
        return trial

    def _stateless(self, trial: Trial, number: int) -> None:
        with trial.other_real_topic("stateless-orders") as topic:
            with stateless_query(trial, topic) as query:
                self._finish(query, "stateless", number)
            ends = ends_of(self.stage.connection, topic, range(trial.settings.half_partitions))
            self._require_finals(trial, "stateless", sum(ends.values()))

    def _job(self, kind: str, trial: Trial, number: int) -> None:
        with Query(trial, kind) as query:
            self._finish(query, kind, number)
            self._require_finals(trial, kind, query.counts()["finals"])

    def _kafka_streams(self, trial: Trial, number: int) -> None:
        with (
            trial.other_real_topic("kafka-streams-orders") as topic,
            StreamsRun(trial, STREAMS, topic) as streams,
        ):
            self._finish(streams, "kafka_streams", number)
            self._require_finals(trial, "kafka_streams", streams.finals)

    def _finish(self, query: Query | StreamsRun, kind: str, number: int) -> None:
        query.wait_for_rows(2 * sum(query.trial.next_offset.values()))
        query.stop()
        warm_up, measured = self.options.warm_up_transactions, self.options.transactions
        steady = steady_part(query.batches(), warm_up / (warm_up + measured))
        run = run_of(query, kind, number, steady, steady.rows // 2, query.batches())
        self.runs.append(run)
        self.say(f"{kind} {number}: {run.transactions_per_s:,.0f} transactions/s")

    def _require_finals(self, trial: Trial, kind: str, found: int) -> None:
        expected = sum(
            commits_among(self.stage.seed, count) for count in trial.next_offset.values()
        )
        if found != expected:
            raise OperationalError(
                f"The run {kind} wrote {found} final messages instead of {expected}.",
                remedy=f"Its logs: {trial.folder}.",
            )

    def _measures(self) -> list[Measure]:
        found = []
        for name, below_kind, above_kind in (
            ("throughput_to_stateless", "stateless", "job"),
            ("throughput_with_ledger", "job", "ledger"),
            ("throughput_with_access_control", "job", "access_control"),
            ("throughput_to_kafka_streams", "kafka_streams", "job"),
        ):
            below, above = (
                {run.number: run.transactions_per_s for run in self.runs if run.kind == kind}
                for kind in (below_kind, above_kind)
            )
            if ratios := [above[number] / below[number] for number in above if number in below]:
                found.append(Measure(name, ratios, self.options.transactions))
        return found
