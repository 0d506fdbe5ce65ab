"""The bench works: what it measures is complete. `make bench-smoke` runs the usual verbs."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.measures import BOUNDS
from bench.smoke import MORE_VERBS, problems_of, run_verb


@pytest.mark.nightly  # `make bench-smoke` runs as much
@pytest.mark.timeout(600)
def test_the_job_is_measured_beside_spark_s_own_sink(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    result = run_verb("pipeline", bootstrap_servers, tmp_path, "--compare", "stateless")

    (measure,) = result["measures"]
    assert measure["name"] == "throughput_to_stateless"
    assert measure["at_least"] == BOUNDS["throughput_to_stateless"].least
    assert measure["value"] > 0
    assert measure["result"] == "not judged"
    assert {run["kind"] for run in result["runs"]} == {"job", "stateless"}
    for run in result["runs"]:
        # Every half and every op was read, in the warm-up or after it.
        assert sum(batch["rows"] for batch in run["batches"]) >= 8_000


@pytest.mark.nightly  # a minute and more, of the bench alone
@pytest.mark.timeout(600)
@pytest.mark.parametrize("verb", MORE_VERBS)
def test_a_verb_that_no_other_test_runs_is_complete(
    verb: str, bootstrap_servers: str, tmp_path: Path
) -> None:
    assert problems_of(verb, run_verb(verb, bootstrap_servers, tmp_path)) == []
