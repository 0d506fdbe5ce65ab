"""``checkback bench pipeline``: how fast the job turns loaded transactions into final messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from checkback.bench import options
from checkback.bench.batches import steady_part
from checkback.bench.load import ends_of
from checkback.bench.measures import Measure
from checkback.bench.options import Say, is_checkout, option
from checkback.bench.query import BASELINE, Query
from checkback.bench.runs import BenchFindings, Run, run_of
from checkback.bench.stage import BenchSetting, Trial
from checkback.bench.workload import commits_among
from checkback.protocol.errors import OperationalError, UsageError

if TYPE_CHECKING:
    from checkback.bench.repository.kafka_streams import StreamsRun

Kind = TypeVar("Kind")

LEDGER: Final = "ledger"
USUAL_COMPARISONS: Final = ("stateless", LEDGER, "page-size-1")
ACCESS: Final = "access-control"
ACCOUNTS: Final = 100
STREAMS: Final = "kafka-streams"
"""This comparison needs a checkout, a JDK and more jars."""
STORED: Final = "stored_bytes_per_transaction"
"""The fact of a run that holds bytes by topic; sizing.py reads it."""
BASELINE_TOPIC: Final = "stateless-orders"
STREAMS_TOPIC: Final = "kafka-streams-orders"


def possible_comparisons() -> tuple[str, ...]:
    """Return the comparisons that are possible here."""
    usual = (*USUAL_COMPARISONS, ACCESS)
    return (*usual, STREAMS) if is_checkout() else usual


@dataclass(frozen=True)
class PipelineOptions:
    """Measure how fast the job resolves transactions.

    They wait in Kafka. The comparisons: Spark's own Kafka sink moving the same records, the job
    with the Delta ledger, the job with one offset per state row, and on request the job with access
    control (100 accounts sign halves and ops) and, in a checkout, Kafka Streams.

    Raises:
        UsageError: there is no comparison with this name.
    """

    transactions: int = options.transactions(1_000_000, smoke=3_000)
    warm_up_transactions: int = option(
        2_000_000,
        "Transactions per run before the measured ones, while the JVM still compiles.",
        smoke=1_000,
        least=1,
    )
    page_size_1_transactions: int = option(
        20_000, "Transactions per run with one offset per state row.", smoke=800, least=40
    )
    runs: int = options.runs()
    batch_events: int = options.batch_events(1_000_000)
    compare: str = option(
        ",".join(USUAL_COMPARISONS),
        "The comparisons; access-control only if named; kafka-streams needs a checkout and a JDK."
        " none: only the job.",
    )

    def __post_init__(self) -> None:
        possible = possible_comparisons()
        if unknown := set(self.comparisons) - set(possible):
            raise UsageError(
                f"--compare has {', '.join(sorted(unknown))}.",
                remedy=f"There are {', '.join(possible)}, and none.",
            )

    @property
    def comparisons(self) -> list[str]:
        """The chosen comparisons."""
        return [] if self.compare == "none" else self.compare.split(",")

    @property
    def loaded_transactions(self) -> int:
        """Number of transactions that a run reads."""
        return self.warm_up_transactions + self.transactions


@dataclass(slots=True)
class PipelineBench:
    """The runs of one call; their order alternates, because a machine's speed changes.

    Args:
        stage: the stage of the runs.
        options: the options of the call.
        say: prints progress for a person.
    """

    stage: BenchSetting
    options: PipelineOptions
    say: Say
    runs: list[Run] = field(default_factory=list)

    def run(self) -> BenchFindings:
        """Do all runs.

        Raises:
            OperationalError: a run failed, or wrote a wrong number of messages.
        """
        for number in range(self.options.runs):
            for run in _in_turn(self._kinds(), number):
                run(number)
        return BenchFindings(self._measures(), self.runs)

    def _kinds(self) -> list[Callable[[int], None]]:
        """Return what runs once for each number, in the order of the first time."""
        comparisons = self.options.comparisons
        variants = [
            partial(self._variant, comparison)
            for comparison in (ACCESS, LEDGER)
            if comparison in comparisons
        ]
        page_size_1 = [self._page_size_1] if "page-size-1" in comparisons else []
        return [self._usual, *variants, *page_size_1]

    def _usual(self, number: int) -> None:
        """Run the job, and beside it what reads the same records."""
        comparisons = self.options.comparisons
        trial = self._loaded(f"pipeline-{number}", self.options.loaded_transactions)
        kinds: list[Callable[[Trial, int], None]] = [partial(self._job, "job")]
        if "stateless" in comparisons:
            kinds.insert(0, self._stateless)
        if STREAMS in comparisons:
            kinds.append(self._kafka_streams)
        for run in _in_turn(kinds, number):
            run(trial, number)
        trial.delete()

    def _variant(self, comparison: str, number: int) -> None:
        """Run the job with something else about it than in the run `job`."""
        name = f"{comparison}-{number}"
        trial = self._loaded(name, self.options.loaded_transactions, comparison)
        self._job(comparison.replace("-", "_"), trial, number)
        trial.delete()

    def _loaded(
        self, name: str, transactions: int, comparison: str = "", *, page_size: int | None = None
    ) -> Trial:
        changes: dict[str, object] = {} if page_size is None else {"page_size": page_size}
        if comparison == LEDGER:
            changes["ledger"] = str(self.stage.folder / name / "ledger")
        trial = self.stage.trial(name, **changes).create()
        if comparison == ACCESS:
            trial.control_access(ACCOUNTS)
        self.say(f"loads {transactions:,} transactions")
        trial.load(transactions)
        return trial

    def _page_size_1(self, number: int) -> None:
        count = self.options.page_size_1_transactions
        trial = self._loaded(f"page-size-1-{number}", count, page_size=1)
        # As many batches as the job has, so that the same number is left after the warm-up.
        share = trial.settings.batch_events_max * count / self.options.loaded_transactions
        trial.settings = replace(trial.settings, batch_events_max=max(100, int(share)))
        self._job("page_size_1", trial, number)
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

    def _job(self, kind: str, trial: Trial, number: int) -> None:
        with Query(trial, kind) as query:
            self._finish(query, kind, number)
            self._require_finals(trial, kind, query.counts()["finals"])

    def _kafka_streams(self, trial: Trial, number: int) -> None:
        from checkback.bench.repository.kafka_streams import StreamsRun

        topic = f"{trial.settings.topic_prefix}{STREAMS_TOPIC}"
        trial.create_real_topics([topic])
        with StreamsRun(trial, STREAMS, topic) as streams:
            self._finish(streams, "kafka_streams", number)
            self._require_finals(trial, "kafka_streams", streams.finals)
        trial.delete_topics([topic])

    def _finish(self, query: Query | StreamsRun, kind: str, number: int) -> None:
        rows = 2 * sum(query.trial.next_offset.values())
        query.wait_for_rows(rows)
        query.stop()
        warm_up = self.options.warm_up_transactions / self.options.loaded_transactions
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
            ("throughput_with_access_control", "job", "access_control"),
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
                found.append(Measure(name, ratios, self.options.transactions))
        return found


def _in_turn(kinds: list[Kind], number: int) -> list[Kind]:
    """Return the kinds of run in the order of this time.

    What runs later meets a warmer broker, so every second time goes the other way round.
    """
    return kinds if number % 2 == 0 else kinds[::-1]


def _stored_per_transaction(trial: Trial) -> dict[str, float]:
    transactions = sum(trial.next_offset.values())
    return {topic: round(size / transactions, 1) for topic, size in trial.stored_bytes().items()}
