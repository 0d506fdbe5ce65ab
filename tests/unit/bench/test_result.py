"""What a result says of measures, machine and software."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version

import pytest
from bench.measures import Measure
from bench.result import BenchFindings, Run, document, machine_facts, result_text, versions

from checkback.deploy.jars import read_lock


def test_a_result_has_its_measures_with_their_spread() -> None:
    run = Run("storm", 0, 1_000, 5, {}, {}, 0, [])
    findings = BenchFindings([Measure("idle_cores", [0.04, 0.06], 40)], [run])

    result = document("latency", {"seed": 7}, findings, {"cores": 2})

    assert (result["command"], result["machine"]) == ("latency", {"cores": 2})
    assert result["options"] == {"seed": 7}
    assert [measure["value"] for measure in result["measures"]] == [0.05]
    assert result["runs"][0]["kind"] == "storm"
    assert result_text(result) == "idle_cores: 0.05 (0.04 to 0.06), not judged"


def test_the_machine_is_described() -> None:
    facts = machine_facts()

    assert facts["cores"] == os.cpu_count()
    assert None not in facts.values()
    if sys.platform == "linux":
        memory_mib = facts["memory_mib"]
        assert isinstance(memory_mib, int)
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
        assert memory_mib == pytest.approx(pages, rel=0.01)


def test_the_versions_are_those_that_run() -> None:
    found = versions()

    assert found["pyspark"] == version("pyspark")
    assert found["python"] == sys.version.split()[0]
    assert int(found["java"]) >= 17
    assert f"kafka_2.13-{found['kafka broker']}.jar" in read_lock()["kafka"]


def test_a_package_that_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.result.PACKAGES", ("pyspark", "not-installed"))

    assert "not-installed" not in versions()
