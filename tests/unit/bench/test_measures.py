"""The bounds of the measures, and how results are shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from bench.measures import BOUNDS, MILLION, Measure, names_of
from bench.smoke import MORE_VERBS, VERBS, problems_of

BENCHMARKS = Path(__file__).parents[3] / "docs" / "benchmarks.md"


def test_the_value_is_the_median_of_the_runs_and_the_spread_stays() -> None:
    data = Measure("throughput_to_stateless", [0.9, 0.7, 0.81], MILLION).as_data()

    assert (data["value"], data["min"], data["max"]) == (0.81, 0.7, 0.9)
    assert (data["at_least"], data["at_most"], data["result"]) == (0.8, None, "ok")


@pytest.mark.parametrize(
    ("name", "value", "result"),
    [
        ("throughput_to_stateless", 0.8, "ok"),
        ("throughput_to_stateless", 0.799, "missed"),
        ("visible_p99_in_storm", 3.0, "ok"),
        ("visible_p99_in_storm", 3.1, "missed"),
    ],
)
def test_a_bound_belongs_to_what_meets_it(name: str, value: float, result: str) -> None:
    assert Measure(name, [value], MILLION).result == result


def test_a_run_smaller_than_its_bound_speaks_of_is_not_judged() -> None:
    assert Measure("throughput_to_stateless", [5.0], MILLION - 1).result == "not judged"


def test_every_measure_comes_out_of_a_verb_and_has_one_bound() -> None:
    assert {name for verb in VERBS + MORE_VERBS for name in names_of(verb)} == BOUNDS.keys()
    for bound in BOUNDS.values():
        assert (bound.least is None) != (bound.most is None)


def test_every_measure_is_explained() -> None:
    explained = re.findall(r"^\| `(\w+)` \|", BENCHMARKS.read_text("utf-8"), re.MULTILINE)

    assert explained == list(BOUNDS)


def test_figures_in_the_readme_are_the_latest_results() -> None:
    latest = BENCHMARKS.read_text("utf-8").partition("## Latest results")[2].partition("\n## ")[0]
    readme = (BENCHMARKS.parents[1] / "README.md").read_text("utf-8")
    (said,) = (line for line in readme.splitlines() if "Spark's own Kafka source" in line)
    ratio, least_ms, most_ms = re.findall(r"0\.\d\d|\d+(?= to)|\d+(?= ms)", said)

    assert f"| throughput to stateless | {ratio} " in latest
    assert f"{most_ms} and {least_ms} ms" in latest


def result(**changes: Any) -> dict[str, Any]:
    run = {"kind": "backlog", "number": 0, "batches": [{"batch_id": 1}]}
    measures = [{"name": name, "value": 1.0} for name in names_of("backlog")]
    return {
        "measures": measures,
        "machine": {"cores": 2},
        "versions": {"a": "1"},
        "runs": [run],
    } | (changes)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, ""),
        ({"measures": []}, "no visible_p99_in_storm"),
        ({"runs": []}, "no runs"),
        ({"runs": [{"kind": "backlog", "number": 0, "batches": []}]}, "has no batches"),
    ],
)
def test_a_smoke_run_finds_what_a_result_lacks(changes: dict[str, Any], problem: str) -> None:
    found = "; ".join(problems_of("backlog", result(**changes)))

    assert (problem in found) if problem else found == ""
