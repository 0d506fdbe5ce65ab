"""The result of a verb: measures with their bounds, runs, machine, JSON document and text.

Most measures are ratios within one call on one machine.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from bench.runs.batches import MeasuredBatch, Steady, median_ms
from bench.runs.query import MonitoredProcess
from bench.runs.samples import MIB, PYTHON_KINDS
from checkback import __version__
from checkback.deploy.jars import jar_paths
from checkback.operations.doctor.doctor import software

NO_OPTIONS: Final = {"verb", "output", "save", "data_dir", "topic_prefix"}
"""Arguments that change nothing about the result."""
Kind = TypeVar("Kind")
MILLION: Final = 1_000_000


class Bound(NamedTuple):
    """A measure's bound; docs/benchmarks.md says what the measure is."""

    verb: str
    transactions: int  # smaller runs are not judged
    at_least: float | None = None
    at_most: float | None = None
    unit: str = "ratio"

    def is_met_by(self, value: float) -> bool:
        """Return whether a value is good enough."""
        return (self.at_least is None or value >= self.at_least) and (
            self.at_most is None or value <= self.at_most
        )


BOUNDS: Final[Mapping[str, Bound]] = {
    "throughput_to_stateless": Bound("pipeline", MILLION, at_least=0.80),
    "throughput_with_ledger": Bound("pipeline", MILLION, at_least=0.85),
    "throughput_with_access_control": Bound("pipeline", MILLION, at_least=0.9),
    "throughput_to_kafka_streams": Bound("pipeline", MILLION, at_least=1),
    "visible_p50_to_batch": Bound("latency", 10_000, at_most=1.8),
    "visible_p99_to_batch": Bound("latency", 10_000, at_most=3),
    "batch_to_empty_batch": Bound("latency", 10_000, at_most=1.5),
    "idle_cores": Bound("latency", 10_000, at_most=0.05, unit="cores"),
    "low_rate_cores": Bound("latency", 10_000, at_most=0.5, unit="cores"),
    "lone_commit_to_awake": Bound("latency", 10_000, at_most=1.2),
    "idle_batch_with_pending": Bound("backlog", MILLION, at_most=1.1),
    "idle_batch_with_ten_times_pending": Bound("backlog", 10 * MILLION, at_most=1.5),
    "throughput_with_pending": Bound("backlog", MILLION, at_least=0.9),
    "worker_rss_with_pending": Bound("backlog", MILLION, at_most=400, unit="MiB"),
    "first_batch_after_restart": Bound("backlog", MILLION, at_most=20, unit="s"),
    "visible_p99_in_storm": Bound("backlog", MILLION, at_most=3),
    "worker_rss_in_storm": Bound("backlog", MILLION, at_most=400, unit="MiB"),
    "relay_idle_cores": Bound("relay", 10_000, at_most=0.02, unit="cores"),
    "relay_p50_at_100": Bound("relay", 10_000, at_most=8, unit="ms"),
    "relay_p99_at_100": Bound("relay", 10_000, at_most=20, unit="ms"),
    "relay_cores_at_100": Bound("relay", 10_000, at_most=0.15, unit="cores"),
    "relay_p50_at_1000": Bound("relay", 10_000, at_most=20, unit="ms"),
    "relay_p99_at_1000": Bound("relay", 10_000, at_most=70, unit="ms"),
    "relay_cores_at_1000": Bound("relay", 10_000, at_most=0.3, unit="cores"),
    "relay_p50_at_2000": Bound("relay", 10_000, at_most=40, unit="ms"),
    "relay_p99_at_2000": Bound("relay", 10_000, at_most=120, unit="ms"),
    "relay_cores_at_2000": Bound("relay", 10_000, at_most=0.6, unit="cores"),
    "job_to_relay_p50": Bound("relay", 10_000, at_least=25),
    "relay_first_final": Bound("relay", 10_000, at_most=2, unit="s"),
    "job_and_relay_idle_cores": Bound("relay", 10_000, at_most=0.06, unit="cores"),
    "job_and_relay_cores_at_150": Bound("relay", 10_000, at_most=0.5, unit="cores"),
    "relay_backlog_to_job": Bound("relay", 10_000, at_least=0.6),
}


ON_REQUEST: Final = {
    "idle_batch_with_ten_times_pending",
    "throughput_to_kafka_streams",
    "throughput_with_access_control",
}
"""Measured only with ten million pending halves, or with ``--compare``."""


class Measure(NamedTuple):
    """One measure of one call of the bench."""

    name: str
    runs: Sequence[float]
    transactions: int

    def as_data(self) -> dict[str, Any]:
        """Return the measure as plain data; its value is the median of the runs."""
        bound, value = BOUNDS[self.name], float(statistics.median(self.runs))
        result = "ok" if bound.is_met_by(value) else "missed"
        return {
            "name": self.name,
            "unit": bound.unit,
            "value": round(value, 3),
            "min": round(min(self.runs), 3),
            "max": round(max(self.runs), 3),
            "runs": [round(run, 3) for run in self.runs],
            "at_least": bound.at_least,
            "at_most": bound.at_most,
            "transactions": self.transactions,
            "result": "not judged" if self.transactions < bound.transactions else result,
        }


def in_turn(kinds: list[Kind], number: int) -> list[Kind]:
    """Return the kinds of run in the order of this repetition.

    What runs later meets a warmer broker, so every second repetition goes the other way round.
    """
    return kinds if number % 2 == 0 else kinds[::-1]


@dataclass(frozen=True, slots=True)
class Run:
    """One run."""

    kind: str
    number: int
    transactions_per_s: float
    batch_ms: float
    cpu_us_per_transaction: Mapping[str, float]
    rss_mib: Mapping[str, float]
    work_us: float  # of a fixed piece of work meanwhile, which shows the machine's speed
    batches: Sequence[MeasuredBatch]
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def python_mib(self) -> float:
        """Memory of the largest worker or sink process, in MiB."""
        return max(self.rss_mib.get(kind, 0.0) for kind in PYTHON_KINDS)


def run_of(
    query: MonitoredProcess,
    kind: str,
    number: int,
    steady: Steady,
    transactions: int,
    facts: Mapping[str, Any],
) -> Run:
    """Return the result of a run."""
    from_ms, to_ms, watch = steady.from_ms, steady.to_ms, query.watch
    cpu_s = watch.cpu_s_between(from_ms, to_ms)
    return Run(
        kind,
        number,
        round(transactions / ((to_ms - from_ms) / 1_000), 1),
        median_ms(steady.batches),
        {kind: round(used_s * 1e6 / transactions, 2) for kind, used_s in cpu_s.items()},
        {kind: watch.rss_mib_max([kind]) for kind in cpu_s},
        watch.work_us_between(from_ms, to_ms),
        list(query.batches()),
        facts,
    )


def document(
    options: argparse.Namespace,
    measures: Sequence[Measure],
    runs: Sequence[Run],
    machine: Mapping[str, object],
) -> dict[str, Any]:
    """Return the result as a JSON document."""
    return {
        "command": options.verb,
        "time_ms": int(time.time() * 1_000),
        "options": {name: value for name, value in vars(options).items() if name not in NO_OPTIONS},
        "machine": dict(machine),
        "versions": versions(),
        "measures": [measure.as_data() for measure in measures],
        "runs": [asdict(run) for run in runs],
    }


def problems_of(result: Mapping[str, Any]) -> list[str]:
    """Return what is missing in the result of a smoke run."""
    verb, values = result["command"], {m["name"]: m["value"] for m in result["measures"]}
    wanted = {name for name, bound in BOUNDS.items() if bound.verb == verb} - ON_REQUEST
    problems = [f"no {name}" for name in sorted(wanted - values.keys())]
    problems += [f"{name} is {value}" for name, value in values.items() if not value > 0]
    return problems + [
        f"{run['kind']} has no batches" for run in result["runs"] if not run["batches"]
    ]


def result_text(result: Mapping[str, Any]) -> str:
    """Return a document's measures as lines; each run was reported when it ended."""
    return "\n".join(
        f"{measure['name']}: {measure['value']:g} ({measure['min']:g} to {measure['max']:g}),"
        f" {measure['result']}"
        for measure in result["measures"]
    )


def machine_facts() -> dict[str, object]:
    """Return facts about the machine and its load."""
    processors = Path("/proc/cpuinfo")
    text = processors.read_text("utf-8") if processors.exists() else ""
    return {
        "cores": os.cpu_count(),
        "cpu": ", ".join(set(re.findall(r"model name\s*: (.+)", text))),
        "memory_mib": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // MIB,
        "system": f"{platform.system()} {platform.release()}",
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }


def versions() -> dict[str, str]:
    """Return the versions of the software; the embedded broker's is that of its jar."""
    found = {"checkback": __version__, **{one.check: one.says for one in software()}}
    for jar in jar_paths("kafka"):
        if match := re.fullmatch(r"kafka_2\.\d+-(.+)\.jar", jar.name):
            found["kafka broker"] = match[1]
    return found
