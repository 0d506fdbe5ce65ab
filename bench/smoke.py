"""Tests that the bench works: ``python -m checkback.bench.repository.smoke``.

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
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from checkback.bench.measures import BOUNDS, names_of
from checkback.bench.repository.sizing import block, cost_of
from checkback.deploy.broker import QUICK_START, EmbeddedBroker

VERBS: Final = ("pipeline", "latency")
MORE_VERBS: Final = ("pending", "storm", "bodies", "scale")
"""Run only if they are named: with them it takes more than three minutes."""
COMMAND: Final = "from checkback.commands import main; main()"
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
    measured = {measure["name"]: measure for measure in result["measures"]}
    problems = [f"no {name}" for name in names_of(verb) if name not in measured.keys() | ON_REQUEST]
    problems += [f"{name} is unknown" for name in measured if name not in BOUNDS]
    problems += [
        f"{name} is {measure['value']}"
        for name, measure in measured.items()
        if not measure["value"] > 0
    ]
    problems += [f"no {key}" for key in ("machine", "versions", "runs") if not result[key]]
    return problems + [
        f"the run {run['kind']} {run['number']} has no batches"
        for run in result["runs"]
        if not run["batches"]
    ]


def run_verb(verb: str, bootstrap_servers: str, folder: Path) -> dict[str, Any]:
    """Run a verb with ``--smoke`` and return its JSON document.

    Raises:
        CalledProcessError: the verb failed; its errors are on standard error.
    """
    picture = ["--picture", str(folder / f"{verb}.svg")] if find_spec("matplotlib") else []
    command = [
        sys.executable, "-c", COMMAND, "bench", verb, "--smoke", "--output", "json",
        "--bootstrap-servers", bootstrap_servers, "--data-dir", str(folder / verb), *picture,
        # The JVM's second compiler does not pay off in a short run.
        "--setting", f"spark.driver.extraJavaOptions={' '.join(QUICK_START)}",
    ]  # fmt: skip
    ran = subprocess.run(command, stdout=subprocess.PIPE, timeout=VERB_TIMEOUT_S, check=True)
    found: dict[str, Any] = json.loads(ran.stdout)
    if picture and not (folder / f"{verb}.svg").stat().st_size:
        raise ValueError(f"{verb} drew nothing")
    return found


def main(verbs: Sequence[str]) -> int:
    """Run verbs; return the exit code."""
    problems: list[str] = []
    results = []
    with tempfile.TemporaryDirectory(prefix="checkback-bench-") as name:
        folder = Path(name)
        with EmbeddedBroker(folder / "broker", jvm_options=QUICK_START) as broker:
            for verb in verbs:
                started_s = time.monotonic()
                result = run_verb(verb, broker.bootstrap_servers, folder)
                found = problems_of(verb, result)
                problems += [f"{verb}: {problem}" for problem in found]
                results.append(result)
                took_s = time.monotonic() - started_s
                print(
                    f"bench {verb}: {'; '.join(found) or 'complete'} ({took_s:.0f} s)", flush=True
                )
    if any(result["command"] == "pipeline" for result in results):
        block(cost_of(results))  # sizing finds in it what it computes with
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or VERBS))
