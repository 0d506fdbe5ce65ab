"""The result of a verb: its runs, the machine, the JSON document and the text of it."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from bench.measures import Measure
from bench.runs.batches import MeasuredBatch, Steady, median_ms
from bench.runs.query import MonitoredProcess
from bench.runs.samples import KINDS, PYTHON_KINDS
from checkback import __version__
from checkback.deploy.jars import jar_paths
from checkback.deploy.java import find_java, java_version

FORMAT: Final = 1
PACKAGES: Final = (
    "checkback", "pyspark", "deltalake", "confluent-kafka", "kafka-python", "pyarrow", "numpy",
    "pandas",
)  # fmt: skip


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


@dataclass(frozen=True, slots=True)
class BenchFindings:
    """What a verb found: measures with names from BOUNDS, the runs behind them, further facts."""

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
    """Return the result of a run."""
    from_ms, to_ms = steady.from_ms, steady.to_ms
    cpu_s = query.watch.cpu_s_between(from_ms, to_ms)
    return Run(
        kind,
        number,
        round(transactions / ((to_ms - from_ms) / 1_000), 1),
        median_ms(steady.batches),
        {kind: round(cpu_s[kind] * 1e6 / transactions, 2) for kind in KINDS if kind in cpu_s},
        {kind: query.watch.rss_mib_max(kind) for kind in KINDS if kind in cpu_s},
        query.speed.work_us_between(from_ms, to_ms),
        list(batches),
        facts or {},
    )


def document(
    command: str,
    options: Mapping[str, Any],
    findings: BenchFindings,
    machine: Mapping[str, object],
) -> dict[str, Any]:
    """Return the result as a JSON document."""
    return {
        "format": FORMAT,
        "command": command,
        "checkback": __version__,
        "time_ms": int(time.time() * 1_000),
        "options": dict(options),
        "machine": dict(machine),
        "versions": versions(),
        "measures": [measure.as_data() for measure in findings.measures],
        "facts": dict(findings.facts),
        "runs": [asdict(run) for run in findings.runs],
    }


def result_text(result: Mapping[str, Any]) -> str:
    """Return a document's measures as lines; its runs were told while they ended."""
    return "\n".join(
        f"{measure['name']}: {measure['value']:g} ({measure['min']:g} to {measure['max']:g}),"
        f" {measure['result']}"
        for measure in result["measures"]
    )


def machine_facts() -> dict[str, object]:
    """Return facts about the machine and its load; unknown facts are left out."""
    memory = _first(Path("/proc/meminfo"), r"MemTotal:\s+(\d+) kB")
    facts: dict[str, object] = {
        "cores": os.cpu_count(),
        "cpu": _first(Path("/proc/cpuinfo"), r"model name\s*: (.+)"),
        "memory_mib": int(memory) // 1_024 if memory else None,
        "system": f"{platform.system()} {platform.release()}",
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }
    return {name: fact for name, fact in facts.items() if fact is not None}


def versions() -> dict[str, str]:
    """Return the versions of the software; the embedded broker's is that of its jar."""
    found = {"python": platform.python_version(), "java": str(java_version(find_java()))}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    for jar in jar_paths("kafka"):
        if match := re.fullmatch(r"kafka_2\.\d+-(.+)\.jar", jar.name):
            found["kafka broker"] = match[1]
    return found


def _first(file: Path, pattern: str) -> str | None:
    try:
        found = re.search(pattern, file.read_text("utf-8"))
    except OSError:
        return None
    return found[1].strip() if found else None
