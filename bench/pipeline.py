"""``python -m bench pipeline``: how fast the job turns loaded transactions into final messages.

The transactions wait in Kafka. Beside the job run, on request: Spark's own Kafka sink moving the
same records, the job with the Delta ledger, the job with access control (100 accounts sign halves
and ops), and Kafka Streams, which needs a JDK.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from bench.result import Measure, in_turn, run_of
from bench.runs.batches import steady_part
from bench.runs.kafka_streams import StreamsRun
from bench.runs.query import Query, stateless_query
from bench.runs.trial import Trial
from bench.runs.workload import commits_among, ends_of
from bench.setting import Bench, Option, say
from checkback.protocol.errors import OperationalError, UsageError

STATELESS: Final = "stateless"
LEDGER: Final = "ledger"
ACCESS: Final = "access-control"
STREAMS: Final = "kafka-streams"
COMPARISONS: Final = (STATELESS, LEDGER, ACCESS, STREAMS)
ACCOUNTS: Final = 100
OPTIONS: Final = (
    Option("body_bytes", 1_024, None, "Message size."),
    Option("transactions", 1_000_000, 3_000, "Transactions per run."),
    Option("warm_up_transactions", 2_000_000, 1_000, "Those before, while the JVM compiles."),
    Option("runs", 3, 1, "Runs of each kind."),
    Option("batch_events", 1_000_000, 2_000, "Most halves and ops that one batch reads."),
    Option("compare", f"{STATELESS},{LEDGER}", None, f"Of {','.join(COMPARISONS)}, or none."),
)
RATIOS: Final = (
    ("throughput_to_stateless", "job", "stateless"),
    ("throughput_with_ledger", "ledger", "job"),
    ("throughput_with_access_control", "access_control", "job"),
    ("throughput_to_kafka_streams", "job", "kafka_streams"),
)
"""Each measure with the kind of run that it divides, and the kind that it divides by."""


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


class PipelineBench(Bench):
    """The runs of one call; their order alternates, because a machine's speed changes."""

    __slots__ = ()

    def measure(self) -> list[Measure]:
        """Do all runs; return the measures."""
        chosen = comparisons_of(self.options.compare)
        variants = [partial(self._variant, name) for name in (ACCESS, LEDGER) if name in chosen]
        for number in range(self.options.runs):
            for run in in_turn([partial(self._usual, chosen), *variants], number):
                run(number)
        return self._measures()

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
        """Run the job with the ledger or with access control."""
        name, changes = f"{comparison}-{number}", {}
        if comparison == LEDGER:
            changes["ledger"] = str(self.stage.folder / name / "ledger")
        trial = self._loaded(name, ACCOUNTS if comparison == ACCESS else 0, **changes)
        self._job(comparison.replace("-", "_"), trial, number)
        trial.delete()

    def _loaded(self, name: str, accounts: int = 0, **changes: str) -> Trial:
        trial = self.stage.trial(name, **changes).create()
        if accounts:
            trial.control_access(accounts)
        transactions = self.options.warm_up_transactions + self.options.transactions
        say(f"loads {transactions:,} transactions")
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
        run = run_of(query, kind, number, steady, steady.rows // 2, {})
        self.runs.append(run)
        say(f"{kind} {number}: {run.transactions_per_s:,.0f} transactions/s")

    def _require_finals(self, trial: Trial, kind: str, found: int) -> None:
        counts = trial.next_offset.values()
        expected = sum(commits_among(self.stage.seed, count) for count in counts)
        if found != expected:
            raise OperationalError(
                f"The run {kind} wrote {found} final messages instead of {expected}.",
                remedy=f"Its logs: {trial.folder}.",
            )

    def _measures(self) -> list[Measure]:
        rates = {(run.kind, run.number): run.transactions_per_s for run in self.runs}
        found = []
        for name, above, below in RATIOS:
            ratios = [
                rate / rates[below, number]
                for (kind, number), rate in rates.items()
                if kind == above and (below, number) in rates
            ]
            if ratios:
                found.append(Measure(name, ratios, self.options.transactions))
        return found
