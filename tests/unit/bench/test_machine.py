"""What is recorded of the machine and the software with every result."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version

import pytest

from checkback.bench.machine import machine_facts, versions
from checkback.deploy.jars import read_lock


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
    monkeypatch.setattr("checkback.bench.machine.PACKAGES", ("pyspark", "not-installed"))

    assert "not-installed" not in versions()
