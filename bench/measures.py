"""The measures and their bounds: mostly ratios within one run on one machine."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

Kind = TypeVar("Kind")
Result = Literal["ok", "missed", "not judged"]


@dataclass(frozen=True, slots=True)
class Bound:
    """A measure's meaning and bound."""

    command: str
    meaning: str
    unit: str = "ratio"
    least: float | None = None
    most: float | None = None
    transactions: int = 0  # smaller runs are not judged

    def met_by(self, value: float) -> bool:
        """Return whether a value is good enough."""
        return (self.least is None or value >= self.least) and (
            self.most is None or value <= self.most
        )


MILLION: Final = 1_000_000


def _pipeline(meaning: str, least: float) -> Bound:
    return Bound("pipeline", meaning, least=least, transactions=MILLION)


def _latency(meaning: str, most: float, unit: str = "ratio") -> Bound:
    return Bound("latency", meaning, unit, most=most, transactions=10_000)


def _backlog(meaning: str, most: float, unit: str = "ratio", pending: int = MILLION) -> Bound:
    return Bound("backlog", meaning, unit, most=most, transactions=pending)


BOUNDS: Final[Mapping[str, Bound]] = {
    "throughput_to_stateless": _pipeline(
        "exactly-once throughput ÷ stateless at-least-once by Spark's own Kafka sink", 0.80
    ),
    "throughput_with_ledger": _pipeline("throughput with the Delta ledger ÷ without", 0.85),
    "throughput_with_access_control": _pipeline(
        "throughput with access control, 100 accounts ÷ without", 0.9
    ),
    "throughput_to_kafka_streams": _pipeline(
        "throughput ÷ that of Kafka Streams, exactly once, on the same records", 1
    ),
    "visible_p50_to_batch": _latency("commit → visible, p50 ÷ median batch time", 1.8),
    "visible_p99_to_batch": _latency("commit → visible, p99 ÷ median batch time", 3),
    "batch_to_empty_batch": _latency("median batch time ÷ empty stateful batch", 1.5),
    "idle_cores": _latency("cores that a pipeline with nothing to do takes", 0.05, "cores"),
    "low_rate_cores": _latency("cores at ten transactions per second", 0.5, "cores"),
    "lone_commit_to_awake": _latency(
        "commit → visible, p50 of commits that wake the pipeline ÷ while ticks keep it awake", 1.2
    ),
    "idle_batch_with_pending": _backlog("idle batch with 1 M pending ÷ with none", 1.1),
    "idle_batch_with_ten_times_pending": _backlog(
        "idle batch with 10 M pending ÷ with none", 1.5, pending=10 * MILLION
    ),
    "throughput_with_pending": Bound(
        "backlog", "throughput with 1 M pending ÷ with none", least=0.9, transactions=MILLION
    ),
    "worker_rss_with_pending": _backlog(
        "memory of the largest Python worker with 1 M pending", 400, "MiB"
    ),
    "first_batch_after_restart": _backlog(
        "start of the process → end of its first batch, with 1 M pending", 20, "s"
    ),
    "visible_p99_in_storm": _backlog(
        "commit → visible, p99 with 1 M checks due at once ÷ quiet p99", 3
    ),
    "worker_rss_in_storm": _backlog("memory of the largest Python worker in the storm", 400, "MiB"),
}


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure of one call of the bench."""

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


def in_turn(kinds: list[Kind], number: int) -> list[Kind]:
    """Return the kinds of run in the order of this repetition.

    What runs later meets a warmer broker, so every second repetition goes the other way round.
    """
    return kinds if number % 2 == 0 else kinds[::-1]
