"""A result of the bench, as a JSON document and as tables."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from checkback import __version__
from checkback.bench.machine import versions
from checkback.bench.runs import BenchFindings, Run

FORMAT: Final = 1


def document(
    command: str,
    options: Mapping[str, Any],
    findings: BenchFindings,
    machine: Mapping[str, object],
) -> dict[str, Any]:
    """Return the result as a JSON document.

    Args:
        command: the verb.
        options: the verb's options, including defaults.
        findings: what the runs found.
        machine: the machine of the runs.
    """
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
        "runs": [run.as_data() for run in findings.runs],
    }


MEASURE_HEADINGS: Final = ("measure", "median", "min..max", "bound", "result")
RUN_HEADINGS: Final = (
    "run", "tx/s", "batch ms", "CPU µs/tx: driver", "jvm", "python", "sink", "broker",
    "MiB: jvm", "python", "sink", "checkpoint B/tx", "work µs",
)  # fmt: skip


def measure_rows(result: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return a table's rows: one per measure of a document."""
    return [
        (
            measure["name"],
            f"{measure['value']:g}",
            f"{measure['min']:g}..{measure['max']:g}",
            _bound(measure),
            measure["result"],
        )
        for measure in result["measures"]
    ]


def run_rows(findings: BenchFindings) -> list[tuple[str, ...]]:
    """Return a table's rows: one per run."""
    return [_run_row(run) for run in findings.runs]


def _bound(measure: Mapping[str, Any]) -> str:
    least, most = measure["at_least"], measure["at_most"]
    sign, value = ("≥", least) if least is not None else ("≤", most)
    unit = "" if measure["unit"] == "ratio" else f" {measure['unit']}"
    return f"{sign} {value:g}{unit}"


def _run_row(run: Run) -> tuple[str, ...]:
    cpu, rss = run.cpu_us_per_transaction, run.rss_mib
    kinds = ("driver", "jvm", "python_worker", "sink", "broker")
    return (
        f"{run.kind} {run.number}",
        f"{run.transactions_per_s:,.0f}",
        f"{run.batch_ms:,.0f}",
        *(f"{cpu[kind]:.1f}" if kind in cpu else "-" for kind in kinds),
        *(f"{rss[kind]:.0f}" if kind in rss else "-" for kind in kinds[1:4]),
        f"{run.checkpoint_bytes_per_transaction:.1f}",
        f"{run.work_us:,.0f}",
    )
