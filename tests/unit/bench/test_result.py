"""What a result says of measures and their bounds, of machine and software."""

from __future__ import annotations

import argparse
import os
import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from bench.__main__ import BENCHES
from bench.result import (
    BOUNDS,
    MILLION,
    Measure,
    Run,
    document,
    machine_facts,
    problems_of,
    result_text,
    versions,
)

from checkback.deploy.jars import read_lock

BENCHMARKS = Path(__file__).parents[3] / "docs" / "benchmarks.md"


def test_the_value_is_the_median_of_the_runs_and_the_spread_stays() -> None:
    data = Measure("throughput_to_stateless", [0.9, 0.7, 0.81], MILLION).as_data()

    assert (data["value"], data["min"], data["max"]) == (0.81, 0.7, 0.9)
    assert (data["at_least"], data["at_most"], data["result"]) == (0.8, None, "ok")


@pytest.mark.parametrize(
    ("name", "value", "size", "result"),
    [
        ("throughput_to_stateless", 0.8, MILLION, "ok"),
        ("throughput_to_stateless", 0.799, MILLION, "missed"),
        ("throughput_to_stateless", 5.0, MILLION - 1, "not judged"),
        ("visible_p99_in_storm", 3.0, MILLION, "ok"),
        ("visible_p99_in_storm", 3.1, MILLION, "missed"),
    ],
)
def test_a_bound_belongs_to_what_meets_it(name: str, value: float, size: int, result: str) -> None:
    assert Measure(name, [value], size).as_data()["result"] == result


def test_every_measure_comes_out_of_a_verb_has_one_bound_and_is_explained() -> None:
    explained = re.findall(r"^\| `(\w+)` \|", BENCHMARKS.read_text("utf-8"), re.MULTILINE)

    assert explained == list(BOUNDS)
    assert {bound.verb for bound in BOUNDS.values()} == BENCHES.keys()
    for bound in BOUNDS.values():
        assert (bound.at_least is None) != (bound.at_most is None)


def test_figures_in_the_readme_are_the_latest_results() -> None:
    latest = BENCHMARKS.read_text("utf-8").partition("## Latest results")[2].partition("\n## ")[0]
    readme = (BENCHMARKS.parents[1] / "README.md").read_text("utf-8")
    (said,) = (line for line in readme.splitlines() if "Spark's own Kafka source" in line)
    found = re.findall(r"0\.\d\d|\d+(?= to)|\d+(?= ms)", said)
    ratio, least_ms, most_ms, *with_relay_ms = found

    assert f"| throughput to stateless | {ratio} " in latest
    assert f"{most_ms} and {least_ms} ms" in latest
    assert [at_rate for at_rate in with_relay_ms if f"| {at_rate} (" not in latest] == []
    assert len(with_relay_ms) == 4


def test_a_result_has_its_measures_with_their_spread() -> None:
    run = Run("job", 0, 1_000, 5, {}, {}, 0, [])
    options = argparse.Namespace(verb="latency", seed=7, save=None)

    result = document(options, [Measure("idle_cores", [0.04, 0.06], 40)], [run], {"cores": 2})

    assert (result["command"], result["machine"]) == ("latency", {"cores": 2})
    assert result["options"] == {"seed": 7}
    assert [measure["value"] for measure in result["measures"]] == [0.05]
    assert result["runs"][0]["kind"] == "job"
    assert result_text(result) == "idle_cores: 0.05 (0.04 to 0.06), not judged"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, ""),
        ({"measures": []}, "no visible_p99_in_storm"),
        ({"measures": [{"name": "visible_p99_in_storm", "value": 0.0}]}, "in_storm is 0.0"),
        ({"runs": [{"kind": "many", "batches": []}]}, "many has no batches"),
    ],
)
def test_a_smoke_run_finds_what_a_result_lacks(changes: dict[str, Any], problem: str) -> None:
    measures = [
        {"name": name, "value": 1.0} for name, bound in BOUNDS.items() if bound.verb == "backlog"
    ]
    runs = [{"kind": "none", "batches": [{"batch_id": 1}]}]

    found = problems_of({"command": "backlog", "measures": measures, "runs": runs} | changes)

    assert (problem in "; ".join(found)) if problem else found == []


def test_machine_and_software_are_those_that_run() -> None:
    facts, found = machine_facts(), versions()

    assert facts["cores"] == os.cpu_count()
    assert found["pyspark"] == version("pyspark")
    assert found["confluent-kafka"].startswith(version("confluent-kafka"))
    assert found["python"] == sys.version.split()[0]
    assert int(found["java"]) >= 17
    assert f"kafka_2.13-{found['kafka broker']}.jar" in read_lock()["kafka"]
