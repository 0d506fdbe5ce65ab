"""What one run of a query came to, for the result's JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from checkback.bench.batches import Steady, median_ms
from checkback.bench.event_log import Batch
from checkback.bench.measures import Measure
from checkback.bench.processes import KINDS
from checkback.bench.watched import Watched


@dataclass(frozen=True, slots=True)
class Run:
    """One run.

    Args:
        kind: what ran: "job", "stateless", "ledger", "page_size_1" and so on.
        number: of the repetition, from 0.
        transactions_per_s: of the steady part.
        batch_ms: median of the steady part.
        cpu_us_per_transaction: processor time by kind of process, microseconds.
        rss_mib: memory of the largest process of each kind, MiB.
        checkpoint_bytes_per_transaction: written in the steady part.
        work_us: processor time of a fixed piece of work in the bench's own process meanwhile, which
            tells whether two runs met the same machine.
        batches: one by one; of a run over what waits, the warm-up too.
        facts: what else is told of it.
    """

    kind: str
    number: int
    transactions_per_s: float
    batch_ms: float
    cpu_us_per_transaction: Mapping[str, float]
    rss_mib: Mapping[str, float]
    checkpoint_bytes_per_transaction: float
    work_us: float
    batches: Sequence[Batch]
    facts: Mapping[str, Any] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        """Return it for programs."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Findings:
    """What a verb of the bench found.

    Args:
        measures: by name in BOUNDS.
        runs: each run that they come from.
        facts: what else is told.
    """

    measures: Sequence[Measure]
    runs: Sequence[Run]
    facts: Mapping[str, Any] = field(default_factory=dict)


def run_of(
    query: Watched,
    kind: str,
    number: int,
    steady: Steady,
    transactions: int,
    batches: Sequence[Batch],
    facts: Mapping[str, Any] | None = None,
) -> Run:
    """Return what a run came to.

    Args:
        query: it, ended or not.
        kind: what ran.
        number: of the repetition.
        steady: the part that counts.
        transactions: in that part.
        batches: what is told of them one by one.
        facts: what else is told of it.
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
