"""``python -m bench client``: how many transactions per second a client process gets through.

Each run is a process of its own: the floor (a bare librdkafka producer that produces a record and
waits for it), the client, its asyncio form, and the client of another checkout. They run in turn,
so that a ratio is one of neighbours. Its transactions commit at once.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from bench import client_process
from bench.client_process import ASYNCIO, BEFORE, CLIENT, FLOOR, ClientMeasurement, ClientRun
from bench.result import table
from bench.setting import Option, count
from checkback.deploy.topics import create_topics
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import PrerequisiteError, UsageError
from checkback.testing.topics import create_plain_topics

PER_THREAD_MAX: Final = 4_000
"""A single thread would take minutes for what 64 do in a second."""
HEADINGS: Final = ("", "threads", "transactions/s", "processor µs", "p50 ms", "p99 ms", "max ms")
RATIO_HEADINGS: Final = ("measure", "threads", "median", "least", "most")


OPTIONS: Final = (
    Option("body_bytes", count, 200, None, "Message size."),
    Option("threads", str, "1,8,64", None, "Numbers of threads; one run for each."),
    Option("transactions", count, 40_000, None, "Of all threads; 4,000 a thread at most."),
    Option("rounds", count, 3, None, "How often all kinds of run follow each other."),
    Option("in_flight", int, 512, None, "Under way at once with asyncio; 0: without asyncio."),
    Option("before_dir", Path, None, None, "Folder src of another checkout, measured in turn."),
)


@dataclass(frozen=True, kw_only=True)
class ClientRatio:
    """A measure: the median of the ratios of neighbours, and the smallest and largest."""

    measure: str
    threads: int
    median: float
    least: float
    most: float


def planned_runs(options: argparse.Namespace, servers: str) -> list[ClientRun]:
    """Return a run of the client for each number of threads.

    Raises:
        UsageError: ``--threads`` does not hold whole numbers.
    """
    parts = options.threads.split(",")
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise UsageError(
            f"--threads is {options.threads!r}.", remedy="Give whole numbers: --threads 1,8,64."
        )
    return [
        ClientRun(
            kind=CLIENT,
            bootstrap_servers=servers,
            topic_prefix=options.topic_prefix,
            threads=threads,
            transactions=min(PER_THREAD_MAX, -(-options.transactions // threads)),
            body_bytes=options.body_bytes,
        )
        for threads in map(int, parts)
    ]


def measure_client(options: argparse.Namespace, servers: str) -> dict[str, Any]:
    """Create the topics, measure everything in turn, and return the JSON document.

    Raises:
        UsageError: ``--threads`` does not hold whole numbers.
        PrerequisiteError: a run failed; a broken run is not measured.
    """
    settings = Settings(bootstrap_servers=servers, topic_prefix=options.topic_prefix)
    runs = planned_runs(options, servers)
    create_topics(settings)
    # As many partitions as the half topic has, so that the floor batches as halves do.
    create_plain_topics(settings, [runs[0].real_topic], settings.half_partitions)
    most = max(run.threads for run in runs)
    measured = []
    for run in runs:
        for _ in range(options.rounds):
            measured.append(_in_process(replace(run, kind=FLOOR)))
            measured.append(_in_process(run))
            if options.in_flight and run.threads == most:
                share = max(1, run.threads * run.transactions // options.in_flight)
                loop = replace(run, kind=ASYNCIO, threads=options.in_flight, transactions=share)
                measured.append(_in_process(loop))
            if options.before_dir is not None:
                measured.append(_in_process(replace(run, kind=BEFORE), options.before_dir))
    found = ratios(measured)
    return {"runs": [asdict(run) for run in measured], "ratios": [asdict(part) for part in found]}


def ratios(measured: Sequence[ClientMeasurement]) -> list[ClientRatio]:
    """Return the measures of what was measured in turn."""
    found: list[ClientRatio] = []
    for threads in dict.fromkeys(run.threads for run in measured if run.kind == CLIENT):
        for name, kind, value in (
            ("client_to_floor", FLOOR, _rate),
            ("time_to_floor", FLOOR, _p50_ms),
            ("client_to_before", BEFORE, _rate),
        ):
            own, others = (
                [value(run) for run in measured if (run.kind, run.threads) == (wanted, threads)]
                for wanted in (CLIENT, kind)
            )
            if values := [ours / other for ours, other in zip(own, others, strict=False)]:
                found.append(
                    ClientRatio(
                        measure=name,
                        threads=threads,
                        median=round(statistics.median(values), 2),
                        least=round(min(values), 2),
                        most=round(max(values), 2),
                    )
                )
    return found


def client_text(result: dict[str, Any]) -> str:
    """Return the document's runs and ratios as tables."""
    runs = [
        (
            run["kind"],
            str(run["threads"]),
            f"{run['transactions_per_s']:,.0f}",
            f"{run['processor_us']:.0f}",
            f"{run['latency_p50_ms']:.2f}",
            f"{run['latency_p99_ms']:.1f}",
            f"{run['latency_max_ms']:.1f}",
        )
        for run in result["runs"]
    ]
    shares = [tuple(f"{value}" for value in ratio.values()) for ratio in result["ratios"]]
    return f"{table([HEADINGS, *runs])}\n\n{table([RATIO_HEADINGS, *shares])}"


def _rate(run: ClientMeasurement) -> float:
    return run.transactions_per_s


def _p50_ms(run: ClientMeasurement) -> float:
    return run.latency_p50_ms


def _in_process(run: ClientRun, checkout: Path | None = None) -> ClientMeasurement:
    environment = {**os.environ, **({"PYTHONPATH": str(checkout)} if checkout else {})}
    command = [sys.executable, "-P", client_process.__file__, json.dumps(asdict(run))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PrerequisiteError(
            f"A run of the client failed: {done.stderr[-2_000:]}",
            remedy="See what it says, and run it again.",
        )
    return ClientMeasurement(**json.loads(done.stdout.splitlines()[-1]))
