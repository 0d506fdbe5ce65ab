"""The bench works: what it measures is complete. `make bench-smoke` runs the usual verbs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench.__main__ import parse, run_verb
from bench.relay import RATES
from bench.result import BOUNDS


def smoke(verb: str, servers: str, folder: Path, *options: str) -> dict[str, Any]:
    call = ["--smoke", f"--bootstrap-servers={servers}", f"--data-dir={folder / verb}", *options]
    return run_verb(parse([verb, *call]))


@pytest.mark.nightly  # `make bench-smoke` runs as much
@pytest.mark.timeout(600)
def test_the_job_is_measured_beside_spark_s_own_sink(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    result = smoke("pipeline", bootstrap_servers, tmp_path)

    measure = result["measures"][0]
    assert measure["name"] == "throughput_to_stateless"
    assert measure["at_least"] == BOUNDS["throughput_to_stateless"].at_least
    assert measure["value"] > 0
    assert measure["result"] == "not judged"
    assert {run["kind"] for run in result["runs"]} == {"job", "stateless", "ledger"}
    for run in result["runs"]:
        # Every half and every op was read, in the warm-up or after it.
        assert sum(batch["rows"] for batch in run["batches"]) >= 8_000


@pytest.mark.nightly  # a minute and more, of the bench alone
@pytest.mark.timeout(600)
def test_a_verb_that_no_other_test_runs_is_complete(bootstrap_servers: str, tmp_path: Path) -> None:
    smoke("backlog", bootstrap_servers, tmp_path)


@pytest.mark.nightly  # as above
@pytest.mark.timeout(600)
def test_a_relay_is_measured_at_each_rate(bootstrap_servers: str, tmp_path: Path) -> None:
    result = smoke("relay", bootstrap_servers, tmp_path)

    measured = {measure["name"] for measure in result["measures"]}
    assert {f"relay_p50_at_{rate:.0f}" for rate in RATES} < measured
    assert measured == {name for name, bound in BOUNDS.items() if bound.verb == "relay"}
