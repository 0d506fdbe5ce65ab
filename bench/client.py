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
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from bench import client_process
from bench.client_process import ASYNCIO, BEFORE, CLIENT, FLOOR, ClientRun
from bench.measures import in_turn
from bench.setting import Option, count
from checkback.deploy.topics import create_topics
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import PrerequisiteError, UsageError
from checkback.testing.topics import create_plain_topics

PER_THREAD_MAX: Final = 4_000
"""A single thread would take minutes for what 64 do in a second."""


OPTIONS: Final = (
    Option("body_bytes", count, 200, None, "Message size."),
    Option("threads", str, "1,8,64", None, "Numbers of threads; one run for each."),
    Option("transactions", count, 40_000, None, "Of all threads; 4,000 a thread at most."),
    Option("rounds", count, 3, None, "How often all kinds of run follow each other."),
    Option("in_flight", int, 512, None, "Under way at once with asyncio; 0: without asyncio."),
    Option("before_dir", Path, None, None, "Folder src of another checkout, measured in turn."),
)


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
        kinds = [replace(run, kind=FLOOR), run]
        if options.in_flight and run.threads == most:
            share = max(1, run.threads * run.transactions // options.in_flight)
            kinds.append(replace(run, kind=ASYNCIO, threads=options.in_flight, transactions=share))
        if options.before_dir is not None:
            kinds.append(replace(run, kind=BEFORE))
        for number in range(options.rounds):
            for kind in in_turn(kinds, number):
                checkout = options.before_dir if kind.kind == BEFORE else None
                measured.append(_in_process(kind, checkout))
    return {"runs": measured, "ratios": ratios(measured)}


def ratios(measured: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the measures of what was measured in turn: medians of the ratios of neighbours."""
    found = []
    for threads in dict.fromkeys(run["threads"] for run in measured if run["kind"] == CLIENT):
        for name, kind, key in (
            ("client_to_floor", FLOOR, "transactions_per_s"),
            ("time_to_floor", FLOOR, "latency_p50_ms"),
            ("client_to_before", BEFORE, "transactions_per_s"),
        ):
            own, others = (
                [run[key] for run in measured if (run["kind"], run["threads"]) == (wanted, threads)]
                for wanted in (CLIENT, kind)
            )
            if values := [ours / other for ours, other in zip(own, others, strict=False)]:
                spread = {"median": statistics.median(values), "least": min(values)}
                spread["most"] = max(values)
                rounded = {key: round(value, 2) for key, value in spread.items()}
                found.append({"measure": name, "threads": threads, **rounded})
    return found


def client_text(result: dict[str, Any]) -> str:
    """Return the document's runs and ratios as lines."""
    runs = [
        f"{run['kind']}, {run['threads']} threads: {run['transactions_per_s']:,.0f} transactions/s,"
        f" {run['processor_us']:.0f} µs of processor time, p50 {run['latency_p50_ms']} ms,"
        f" p99 {run['latency_p99_ms']} ms"
        for run in result["runs"]
    ]
    shares = [
        f"{ratio['measure']}, {ratio['threads']} threads: {ratio['median']}"
        f" ({ratio['least']} to {ratio['most']})"
        for ratio in result["ratios"]
    ]
    return "\n".join([*runs, *shares])


def _in_process(run: ClientRun, checkout: Path | None = None) -> dict[str, Any]:
    environment = {**os.environ, **({"PYTHONPATH": str(checkout)} if checkout else {})}
    command = [sys.executable, "-P", client_process.__file__, json.dumps(asdict(run))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PrerequisiteError(
            f"A run of the client failed: {done.stderr[-2_000:]}",
            remedy="See what it says, and run it again.",
        )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
