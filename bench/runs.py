"""The results of runs, for the result document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from checkback.bench.batches import Steady, median_ms
from checkback.bench.event_log import MeasuredBatch
from checkback.bench.measures import Measure
from checkback.bench.monitored_process import MonitoredProcess
from checkback.bench.processes import KINDS, PYTHON_KINDS


@dataclass(frozen=True, slots=True)
class Run:
    """One run.

    Args:
        kind: what ran: "job", "stateless", "ledger", "page_size_1" and so on.
        number: number of the repetition, from 0.
        transactions_per_s: rate of the steady part.
        batch_ms: median batch time of the steady part.
        cpu_us_per_transaction: processor time by kind of process, in microseconds.
        rss_mib: memory of the largest process of each kind, in MiB.
        checkpoint_bytes_per_transaction: bytes written in the steady part.
        work_us: processor time of a fixed piece of work in the bench's own process during the run;
            it shows whether the machine had the same speed in two runs.
        batches: the batches; for a run over loaded transactions with the warm-up.
        facts: further facts by name.
    """

    kind: str
    number: int
    transactions_per_s: float
    batch_ms: float
    cpu_us_per_transaction: Mapping[str, float]
    rss_mib: Mapping[str, float]
    checkpoint_bytes_per_transaction: float
    work_us: float
    batches: Sequence[MeasuredBatch]
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def python_mib(self) -> float:
        """Memory of the largest worker or sink process, in MiB."""
        return max(self.rss_mib.get(kind, 0.0) for kind in PYTHON_KINDS)

    def as_data(self) -> dict[str, Any]:
        """Return the run as plain data."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class BenchFindings:
    """What a verb of the bench found.

    Args:
        measures: the measures, with names from BOUNDS.
        runs: the runs behind the measures.
        facts: further facts by name.
    """

    measures: Sequence[Measure]
    runs: Sequence[Run]
    facts: Mapping[str, Any] = field(default_factory=dict)


def run_of(
    query: MonitoredProcess,
    kind: str,
    number: int,
    steady: Steady,
    transactions: int,
    batches: Sequence[MeasuredBatch],
    facts: Mapping[str, Any] | None = None,
) -> Run:
    """Return the result of a run.

    Args:
        query: the query, ended or not.
        kind: what ran.
        number: number of the repetition.
        steady: the measured part.
        transactions: number of transactions in the measured part.
        batches: the batches to list in the result.
        facts: further facts by name.
    """
    from_ms, to_ms = steady.from_ms, steady.to_ms
    cpu_s = query.watch.cpu_s_between(from_ms, to_ms)
    written = query.checkpoint.bytes_between(from_ms, to_ms)
    return Run(
        kind,
        number,
        round(transactions / ((to_ms - from_ms) / 1_000), 1),
        median_ms(steady.batches),
        {one: round(cpu_s[one] * 1e6 / transactions, 2) for one in KINDS if one in cpu_s},
        {one: query.watch.rss_mib_max(one) for one in KINDS if one in cpu_s},
        round(written / transactions, 1),
        query.speed.work_us_between(from_ms, to_ms),
        list(batches),
        facts or {},
    )
