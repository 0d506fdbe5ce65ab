"""``checkback bench pipeline``: how fast transactions that wait in Kafka become final messages."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Final

from checkback.bench.batches import steady_part
from checkback.bench.kafka_streams import StreamsRun
from checkback.bench.load import ends_of
from checkback.bench.measures import Measure
from checkback.bench.query import BASELINE, Query
from checkback.bench.runs import Findings, Run, run_of
from checkback.bench.stage import Stage, Trial
from checkback.bench.workload import commits_among
from checkback.protocol.errors import OperationalError

USUAL_COMPARISONS: Final = ("stateless", "ledger", "page-size-1")
COMPARISONS: Final = (*USUAL_COMPARISONS, "kafka-streams")
"""The last needs a JDK and further jars."""
STORED: Final = "stored_bytes_per_transaction"
"""By topic, in a run's facts; what sizing.py computes with."""
BASELINE_TOPIC: Final = "stateless-orders"
STREAMS_TOPIC: Final = "kafka-streams-orders"

Say = Callable[[str], None]


@dataclass(slots=True)
class PipelineBench:
    """The runs of one call; their orders alternate, since a machine grows slower or faster.

    Args:
        stage: what they stand on.
        transactions: in each run, to be measured.
        warm_up_transactions: in each run before them.
        page_size_1_transactions: in a run with one offset per state row, which is far slower; the
            same share of them is warm-up.
        repetitions: of each run.
        comparisons: which of COMPARISONS.
        say: tells a person how far it is.
    """

    stage: Stage
    transactions: int
    warm_up_transactions: int
    page_size_1_transactions: int
    repetitions: int
    comparisons: Collection[str]
    say: Say
    runs: list[Run] = field(default_factory=list)

    @property
    def _loaded_transactions(self) -> int:
        return self.warm_up_transactions + self.transactions

    def run(self) -> Findings:
        """Do all runs.

        Raises:
            OperationalError: a run failed, or wrote another number of messages than it should.
        """
        for number in range(self.repetitions):
            trial = self._loaded(f"pipeline-{number}", self._loaded_transactions)
            if "stateless" in self.comparisons:
                self._stateless(trial, number)
            self._job(trial, "job", number)
            if "kafka-streams" in self.comparisons:
                self._kafka_streams(trial, number)
            trial.delete()
            if "ledger" in self.comparisons:
                ledger = self._loaded(f"ledger-{number}", self._loaded_transactions, ledger=True)
                self._job(ledger, "ledger", number)
                ledger.delete()
            if "page-size-1" in self.comparisons:
                self._page_size_1(number)
        return Findings(self._measures(), self.runs)

    def _loaded(
        self, name: str, transactions: int, *, ledger: bool = False, page_size: int | None = None
    ) -> Trial:
        changes: dict[str, object] = {} if page_size is None else {"page_size": page_size}
        if ledger:
            changes["ledger"] = str(self.stage.folder / name / "ledger")
        trial = self.stage.trial(name, **changes).create()
        self.say(f"loads {transactions:,} transactions")
        trial.load(transactions)
        return trial

    def _page_size_1(self, number: int) -> None:
        count = self.page_size_1_transactions
        trial = self._loaded(f"page-size-1-{number}", count, page_size=1)
        # The same number of batches as the job has, so that as many are left after the warm-up.
        share = trial.settings.batch_events_max * count / self._loaded_transactions
        trial.settings = replace(trial.settings, batch_events_max=max(100, int(share)))
        self._job(trial, "page_size_1", number)
        trial.delete()

    def _stateless(self, trial: Trial, number: int) -> None:
        topic = f"{trial.settings.topic_prefix}{BASELINE_TOPIC}"
        trial.create_real_topics([topic])
        settings = replace(trial.settings, checkpoint=str(trial.folder / "stateless-checkpoint"))
        options = ["--seed", str(self.stage.seed), "--real-topic", topic]
        with Query(trial, "stateless", BASELINE, settings, options) as query:
            self._finish(query, "stateless", number)
        ends = ends_of(self.stage.connection, topic, range(trial.settings.half_partitions))
        self._require_finals(trial, "stateless", sum(ends.values()))
        trial.delete_topics([topic])

    def _job(self, trial: Trial, kind: str, number: int) -> None:
        with Query(trial, kind) as query:
            self._finish(query, kind, number)
            self._require_finals(trial, kind, query.counts()["finals"])

    def _kafka_streams(self, trial: Trial, number: int) -> None:
        topic = f"{trial.settings.topic_prefix}{STREAMS_TOPIC}"
        trial.create_real_topics([topic])
        with StreamsRun(trial, "kafka-streams", topic) as streams:
            self._finish(streams, "kafka_streams", number)
            self._require_finals(trial, "kafka_streams", streams.finals)
        trial.delete_topics([topic])

    def _finish(self, query: Query | StreamsRun, kind: str, number: int) -> None:
        rows = 2 * sum(query.trial.next_offset.values())
        query.wait_for_rows(rows)
        query.stop()
        warm_up = self.warm_up_transactions / self._loaded_transactions
        steady = steady_part(query.batches(), warm_up)
        is_other = kind in ("stateless", "kafka_streams")
        facts = {} if is_other else {STORED: _stored_per_transaction(query.trial)}
        run = run_of(query, kind, number, steady, steady.rows // 2, query.batches(), facts)
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
        for name, kind, above in (
            ("throughput_to_stateless", "stateless", "job"),
            ("throughput_with_ledger", "job", "ledger"),
            ("throughput_to_page_size_1", "page_size_1", "job"),
            ("throughput_to_kafka_streams", "kafka_streams", "job"),
        ):
            below = {run.number: run.transactions_per_s for run in self.runs if run.kind == kind}
            ratios = [
                run.transactions_per_s / below[run.number]
                for run in self.runs
                if run.kind == above and run.number in below
            ]
            if ratios:
                found.append(Measure(name, ratios, self.transactions))
        return found


def _stored_per_transaction(trial: Trial) -> dict[str, float]:
    transactions = sum(trial.next_offset.values())
    return {topic: round(size / transactions, 1) for topic, size in trial.stored_bytes().items()}
