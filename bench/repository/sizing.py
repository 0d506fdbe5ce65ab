"""Computes machines from measured costs: the tables in docs/operating/sizing.md.

``python -m checkback.bench.repository.sizing result.json docs/operating/sizing.md`` updates them
from a result of ``checkback bench pipeline --save result.json``.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from checkback.bench.pipeline import STORED

BEGIN: Final = "<!-- sizing:begin -->"
END: Final = "<!-- sizing:end -->"

RATES: Final = (1_000, 10_000, 100_000, 1_000_000)
"""Transactions per second: the rate of `checkback bench latency`, and 10, 100 and 1000 times it."""
LOAD_MOST: Final = 0.7
"""The planned load of a core, a link or a process; the rest is a reserve for catching up."""
LINK_BYTES_PER_S: Final = 1.25e9
"""A network link of 10 Gbit/s."""
MACHINE_CORES: Final = 16
DAY_S: Final = 86_400
RETENTION_DAYS: Final = 4
"""Retention of the half and op topics with the default half_retention_ms: three days plus one."""
READS: Final[Mapping[str, int]] = {"half": 2, "op": 1, "final": 1, "settled": 0}
"""How often each record is read: a half by Spark's source and again by the sink; a final message by
one consumer group."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one transaction.

    Args:
        cpu_us: microseconds of processor time by kind of process.
        stored_bytes: bytes stored by topic, on one replica.
        checkpoint_bytes: bytes written to the checkpoint.
        measured: a description of the measurement.
    """

    cpu_us: Mapping[str, float]
    stored_bytes: Mapping[str, float]
    checkpoint_bytes: float
    measured: str

    @property
    def job_us(self) -> float:
        """Processor time of everything except the broker."""
        return sum(us for kind, us in self.cpu_us.items() if kind != "broker")

    @property
    def in_partition_us(self) -> float:
        """Processor time that a state partition can't spread over cores."""
        return self.cpu_us.get("python_worker", 0.0) + self.cpu_us.get("sink", 0.0)

    @property
    def written_bytes(self) -> float:
        """Bytes that the brokers receive, on one replica."""
        return sum(self.stored_bytes.values())

    @property
    def read_bytes(self) -> float:
        """Bytes that the brokers send."""
        return sum(size * READS[topic] for topic, size in self.stored_bytes.items())


def cost_of(results: Sequence[Mapping[str, Any]]) -> Cost:
    """Return the cost in the job's runs of `bench pipeline` results: the median of each part.

    Raises:
        ValueError: no result has a run of the job with processor times.
    """
    runs = [
        run
        for result in results
        if result["command"] == "pipeline"
        for run in result["runs"]
        if run["kind"] == "job" and run["cpu_us_per_transaction"]
    ]
    if not runs:
        raise ValueError("no run of `checkback bench pipeline` with processor times")
    kinds = runs[0]["cpu_us_per_transaction"].keys()
    topics = runs[0]["facts"][STORED].keys()
    first = next(result for result in results if result["command"] == "pipeline")
    many = "1 run" if len(runs) == 1 else f"{len(runs)} runs, each"
    return Cost(
        {kind: _median(runs, "cpu_us_per_transaction", kind) for kind in kinds},
        {topic: statistics.median(run["facts"][STORED][topic] for run in runs) for topic in topics},
        statistics.median(run["checkpoint_bytes_per_transaction"] for run in runs),
        f"{many} of {first['options']['transactions']:,} transactions with bodies"
        f" of {first['options']['body_bytes']:,} bytes, on {first['machine'].get('cores')} cores"
        f" ({first['machine'].get('cpu', 'unknown')}), broker included",
    )


def with_block(document: str, results: Sequence[Mapping[str, Any]]) -> str:
    """Return the document with the text between its markers replaced by the current tables.

    Raises:
        ValueError: the document has no markers, or no result has the cost of a transaction.
    """
    before, _, rest = document.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"The document has no {BEGIN} and {END}.")
    return f"{before}{BEGIN}\n{block(cost_of(results))}\n{END}{after}"


def block(cost: Cost) -> str:
    """Return the tables: the cost of a transaction, and the needs of the rates."""
    return "\n".join(["", f"Measured: {cost.measured}.", "", *_costs(cost), "", *_needs(cost), ""])


def limit(cost: Cost, rate: float) -> str:
    """Return in words what a rate needs more than one machine for."""
    found = []
    cores, brokers = _cores(cost, rate), _brokers(cost, rate)
    if cores + _broker_cores(cost, rate) > MACHINE_CORES:
        found.append(f"cores: executors with {math.ceil(cores):,}, brokers beside them")
    if brokers > 1:
        found.append(f"a broker's link: {brokers:,} brokers before replication")
    return "; ".join(found) or f"nothing: one machine of {MACHINE_CORES} cores does all"


def _costs(cost: Cost) -> list[str]:
    names = {
        "driver": "driver (Python)",
        "jvm": "JVM: driver and executors",
        "python_worker": "Python workers",
        "sink": "sink processes",
        "broker": "broker",
    }
    rows = [
        (f"processor time, {names.get(kind, kind)}", f"{us:,.1f} µs")
        for kind, us in cost.cpu_us.items()
    ]
    rows += [
        (f"stored on the {topic} topic, one replica", f"{size:,.0f} bytes")
        for topic, size in cost.stored_bytes.items()
    ]
    rows += [
        ("taken in by the brokers", f"{cost.written_bytes:,.0f} bytes"),
        ("sent out by the brokers", f"{cost.read_bytes:,.0f} bytes"),
        ("written to the checkpoint", f"{cost.checkpoint_bytes:,.0f} bytes"),
    ]
    return ["| one transaction | costs |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows)]


def _needs(cost: Cost) -> list[str]:
    kept = cost.stored_bytes.get("half", 0.0) + cost.stored_bytes.get("op", 0.0)
    rows = {
        "cores for driver and executors": [f"{_cores(cost, rate):,.1f}" for rate in RATES],
        "cores for brokers, one replica": [f"{_broker_cores(cost, rate):,.1f}" for rate in RATES],
        "state partitions, at least": [f"{_state_partitions(cost, rate):,}" for rate in RATES],
        "taken in by the brokers, one replica": [
            f"{rate * cost.written_bytes / 1e6:,.1f} MB/s" for rate in RATES
        ],
        "sent out by the brokers": [f"{rate * cost.read_bytes / 1e6:,.1f} MB/s" for rate in RATES],
        f"half and op topics, {RETENTION_DAYS} days, one replica": [
            f"{rate * kept * DAY_S * RETENTION_DAYS / 1e12:,.1f} TB" for rate in RATES
        ],
        "written to the checkpoint": [
            f"{rate * cost.checkpoint_bytes / 1e6:,.2f} MB/s" for rate in RATES
        ],
        "what limits": [limit(cost, rate) for rate in RATES],
    }
    head = " | ".join(f"{rate:,} tx/s" for rate in RATES)
    lines = [f"| | {head} |", "|---" * (len(RATES) + 1) + "|"]
    return lines + [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()]


def _cores(cost: Cost, rate: float) -> float:
    return rate * cost.job_us / 1e6 / LOAD_MOST


def _broker_cores(cost: Cost, rate: float) -> float:
    return rate * cost.cpu_us.get("broker", 0.0) / 1e6 / LOAD_MOST


def _state_partitions(cost: Cost, rate: float) -> int:
    return max(1, math.ceil(rate * cost.in_partition_us / 1e6 / LOAD_MOST))


def _brokers(cost: Cost, rate: float) -> int:
    busiest = max(cost.written_bytes, cost.read_bytes)
    return max(1, math.ceil(rate * busiest / LINK_BYTES_PER_S / LOAD_MOST))


def _median(runs: Sequence[Mapping[str, Any]], part: str, name: str) -> float:
    return float(statistics.median(run[part].get(name, 0.0) for run in runs))


if __name__ == "__main__":
    *names, target = sys.argv[1:]
    path = Path(target)
    loaded = [json.loads(Path(name).read_text("utf-8")) for name in names]
    path.write_text(with_block(path.read_text("utf-8"), loaded), "utf-8")
