"""Shows that the benchmarks work: ``python -m bench smoke [VERB...]``.

It runs the named verbs, or the usual ones, with ``--smoke`` on one broker and checks that each
result is complete. It does not judge times, because a machine that runs tests is not fit to measure
on.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench.measures import names_of
from checkback.deploy.broker import QUICK_START, EmbeddedBroker

VERBS: Final = ("pipeline", "latency")
MORE_VERBS: Final = ("backlog",)
"""Run only if they are named: with them it takes more than two minutes."""
VERB_TIMEOUT_S: Final = 900.0
ON_REQUEST: Final = frozenset(
    {
        "idle_batch_with_ten_times_pending",
        "throughput_to_kafka_streams",
        "throughput_with_access_control",
    }
)
"""Measured only with ten million pending halves, or on request."""


def problems_of(verb: str, result: Mapping[str, Any]) -> list[str]:
    """Return what is missing in a result."""
    values = {measure["name"]: measure["value"] for measure in result["measures"]}
    problems = [f"no {name}" for name in names_of(verb) if name not in values.keys() | ON_REQUEST]
    problems += [f"{name} is {value}" for name, value in values.items() if not value > 0]
    problems += [f"no {key}" for key in ("machine", "versions", "runs") if not result[key]]
    kinds = [run["kind"] for run in result["runs"] if not run["batches"]]
    return problems + [f"the run {kind} has no batches" for kind in kinds]


def run_verb(verb: str, bootstrap_servers: str, folder: Path, *options: str) -> dict[str, Any]:
    """Run a verb with ``--smoke`` and return its JSON document.

    Raises:
        CalledProcessError: the verb failed; its errors are on standard error.
    """
    command = [
        sys.executable, "-m", "bench", verb, "--smoke", "--output", "json",
        "--bootstrap-servers", bootstrap_servers, "--data-dir", str(folder / verb), *options,
        # The JVM's second compiler does not pay off in a short run.
        "--setting", f"spark.driver.extraJavaOptions={' '.join(QUICK_START)}",
    ]  # fmt: skip
    root = Path(__file__).parents[1]
    ran = subprocess.run(
        command, stdout=subprocess.PIPE, timeout=VERB_TIMEOUT_S, check=True, cwd=root
    )
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def run(verbs: Sequence[str]) -> int:
    """Run verbs; return the exit code."""
    is_complete = True
    with tempfile.TemporaryDirectory(prefix="checkback-bench-") as name:
        folder = Path(name)
        with EmbeddedBroker(folder / "broker", jvm_options=QUICK_START) as broker:
            for verb in verbs:
                started_s = time.monotonic()
                found = problems_of(verb, run_verb(verb, broker.bootstrap_servers, folder))
                is_complete = is_complete and not found
                took_s = time.monotonic() - started_s
                text = "; ".join(found) or "complete"
                print(f"bench {verb}: {text} ({took_s:.0f} s)", flush=True)
    return 0 if is_complete else 1
