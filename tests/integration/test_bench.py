"""The bench works: what it measures is complete. `make bench-smoke` runs the usual verbs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.running import COMMAND

from checkback.bench.measures import BOUNDS
from checkback.bench.options import with_smoke
from checkback.bench.repository.bodies import BodiesOptions
from checkback.bench.repository.sizing import cost_of
from checkback.bench.repository.smoke import MORE_VERBS, problems_of, run_verb


@pytest.mark.nightly  # `make bench-smoke` runs as much
@pytest.mark.timeout(900)
def test_the_job_is_measured_beside_spark_s_own_sink(
    bootstrap_servers: str, unique: str, tmp_path: Path
) -> None:
    picture, saved = tmp_path / "runs.svg", tmp_path / "result.json"
    ran = subprocess.run(
        [
            COMMAND, "bench", "pipeline", "--smoke", "--compare", "stateless",
            "--bootstrap-servers", bootstrap_servers, "--topic-prefix", unique,
            "--data-dir", str(tmp_path / "data"), "--picture", str(picture),
            "--save", str(saved), "--output", "json",
        ],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)

    (measure,) = result["measures"]
    assert measure["name"] == "throughput_to_stateless"
    assert measure["at_least"] == BOUNDS["throughput_to_stateless"].least
    assert measure["value"] > 0
    assert measure["result"] == "not judged"
    assert {run["kind"] for run in result["runs"]} == {"job", "stateless"}
    for run in result["runs"]:
        # Every half and every op was read, in the warm-up or after it.
        assert sum(batch["rows"] for batch in run["batches"]) >= 8_000
    assert json.loads(saved.read_text())["measures"] == result["measures"]
    assert "<svg" in picture.read_text()
    if sys.platform == "linux":
        cost = cost_of([result])
        assert cost.cpu_us["jvm"] > 0
        assert cost.stored_bytes["half"] > 1_024


@pytest.mark.nightly  # half a minute to a minute each, of the bench alone
@pytest.mark.timeout(900)
@pytest.mark.parametrize("verb", MORE_VERBS)
def test_a_verb_that_no_other_test_runs_is_complete(
    verb: str, bootstrap_servers: str, tmp_path: Path
) -> None:
    result = run_verb(verb, bootstrap_servers, tmp_path)

    assert problems_of(verb, result) == []
    if verb == "bodies":
        [run] = result["runs"]
        halves = with_smoke(BodiesOptions()).transactions
        assert run["facts"] == {"halves": halves, "commits": halves // 2}
        assert sum(batch["rows"] for batch in run["batches"]) >= halves + halves // 2  # and ticks
