"""The measures and their bounds: mostly ratios within one run on one machine."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

Result = Literal["ok", "missed", "not judged"]


@dataclass(frozen=True, slots=True)
class Bound:
    """A measure's meaning and bound.

    Args:
        command: the verb of ``checkback bench`` that measures it.
        meaning: the measure in words.
        unit: "ratio", "bytes", "MiB", "cores" or "s".
        least: the least good value, None if less is better.
        most: the largest good value, None if more is better.
        transactions: the bound is for runs with at least this many transactions; smaller runs are
            not judged.
    """

    command: str
    meaning: str
    unit: str = "ratio"
    least: float | None = None
    most: float | None = None
    transactions: int = 0

    def met_by(self, value: float) -> bool:
        """Return whether a value is good enough."""
        return (self.least is None or value >= self.least) and (
            self.most is None or value <= self.most
        )

    @property
    def text(self) -> str:
        """The bound as a table shows it."""
        return f"≥ {self.least:g}" if self.least is not None else f"≤ {self.most:g}"


MILLION: Final = 1_000_000

BOUNDS: Final[Mapping[str, Bound]] = {
    "throughput_to_stateless": Bound(
        "pipeline",
        "exactly-once throughput ÷ stateless at-least-once by Spark's own Kafka sink",
        least=0.80,
        transactions=MILLION,
    ),
    "throughput_with_ledger": Bound(
        "pipeline",
        "throughput with the Delta ledger ÷ without",
        least=0.85,
        transactions=MILLION,
    ),
    "throughput_with_access_control": Bound(
        "pipeline",
        "throughput with access control, 100 accounts ÷ without",
        least=0.9,
        transactions=MILLION,
    ),
    "throughput_to_page_size_1": Bound(
        "pipeline",
        "throughput ÷ that of one offset per state row",
        least=30,
        transactions=MILLION,
    ),
    "throughput_to_kafka_streams": Bound(
        "pipeline",
        "throughput ÷ that of Kafka Streams, exactly once, on the same records",
        least=1,
        transactions=MILLION,
    ),
    "visible_p50_to_batch": Bound(
        "latency", "commit → visible, p50 ÷ median batch time", most=1.8, transactions=10_000
    ),
    "visible_p99_to_batch": Bound(
        "latency", "commit → visible, p99 ÷ median batch time", most=3, transactions=10_000
    ),
    "batch_to_empty_batch": Bound(
        "latency", "median batch time ÷ empty stateful batch", most=1.5, transactions=10_000
    ),
    "empty_batch_to_stateless": Bound(
        "latency",
        "empty stateful batch ÷ empty batch of a stateless Kafka to Kafka query",
        most=2,
        transactions=10_000,
    ),
    "checkpoint_bytes_per_transaction": Bound(
        "latency",
        "checkpoint bytes written per transaction that commits within two batches",
        "bytes",
        most=120,
        transactions=10_000,
    ),
    "idle_cores": Bound(
        "latency",
        "cores that a pipeline with nothing to do takes",
        "cores",
        most=0.05,
        transactions=10_000,
    ),
    "low_rate_cores": Bound(
        "latency", "cores at ten transactions per second", "cores", most=0.2, transactions=10_000
    ),
    "lone_commit_to_awake": Bound(
        "latency",
        "commit → visible, p50 of commits that wake the pipeline ÷ while ticks keep it awake",
        most=1.2,
        transactions=10_000,
    ),
    "idle_batch_with_pending": Bound(
        "pending", "idle batch with 1 M pending ÷ with none", most=1.1, transactions=MILLION
    ),
    "idle_batch_with_ten_times_pending": Bound(
        "pending", "idle batch with 10 M pending ÷ with none", most=1.5, transactions=10 * MILLION
    ),
    "throughput_with_pending": Bound(
        "pending", "throughput with 1 M pending ÷ with none", least=0.9, transactions=MILLION
    ),
    "worker_rss_with_pending": Bound(
        "pending",
        "memory of the largest Python worker with 1 M pending",
        "MiB",
        most=400,
        transactions=MILLION,
    ),
    "first_batch_after_restart": Bound(
        "pending",
        "start of the process → end of its first batch, with 1 M pending",
        "s",
        most=20,
        transactions=MILLION,
    ),
    "visible_p99_in_storm": Bound(
        "storm",
        "commit → visible, p99 with 1 M checks due at once ÷ quiet p99",
        most=3,
        transactions=MILLION,
    ),
    "worker_rss_in_storm": Bound(
        "storm",
        "memory of the largest Python worker in the storm",
        "MiB",
        most=400,
        transactions=MILLION,
    ),
    "worker_rss_with_large_bodies": Bound(
        "bodies",
        "memory of the largest Python worker, 10,000 halves of 1 MiB, half committed later",
        "MiB",
        most=600,
        transactions=10_000,
    ),
    "throughput_of_two_executors": Bound(
        "scale",
        "throughput of two executors of one core ÷ of one",
        least=1.7,
        transactions=100_000,
    ),
}


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure of one call of the bench.

    Args:
        name: name in BOUNDS.
        runs: the value of each repetition; the measure's value is their median.
        transactions: number of transactions per run, for the bound.
    """

    name: str
    runs: Sequence[float]
    transactions: int

    @property
    def value(self) -> float:
        """The median of the repetitions."""
        return float(statistics.median(self.runs))

    @property
    def result(self) -> Result:
        """Whether the bound is met; small runs are not judged."""
        bound = BOUNDS[self.name]
        if self.transactions < bound.transactions:
            return "not judged"
        return "ok" if bound.met_by(self.value) else "missed"

    def as_data(self) -> dict[str, Any]:
        """Return the measure as plain data."""
        bound = BOUNDS[self.name]
        return {
            "name": self.name,
            "meaning": bound.meaning,
            "unit": bound.unit,
            "value": round(self.value, 3),
            "min": round(min(self.runs), 3),
            "max": round(max(self.runs), 3),
            "runs": [round(value, 3) for value in self.runs],
            "at_least": bound.least,
            "at_most": bound.most,
            "transactions": self.transactions,
            "result": self.result,
        }


def names_of(command: str) -> list[str]:
    """Return the names of a verb's measures."""
    return [name for name, bound in BOUNDS.items() if bound.command == command]
