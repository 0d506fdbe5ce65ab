"""The conformance kit judges clients: Checkback's own conform, one that breaks rules fails."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from checkback.testing.conformance import check_cases, kill_cases, limit_cases, record_cases
from checkback.testing.conformance.__main__ import LAST, PYTHON, WITH_A_PIPELINE, WITHOUT, main

PYTHON_CLIENT = "checkback.testing.conformance.python_client"
JAR = Path(__file__).parents[3] / "java" / "conformance" / "target" / "conformance.jar"
BROKEN = f"""
from checkback.client.checks.answers import CheckAnswers
from checkback.protocol.topics import TopicNames
from {PYTHON_CLIENT} import JudgedClient

CheckAnswers._is_old = lambda self, request: False
TopicNames.is_system = lambda self, topic: False
JudgedClient().run()
"""


def judge(
    capsys: pytest.CaptureFixture[str], options: list[str], command: list[str]
) -> tuple[int, dict[str, dict[str, Any]]]:
    """Run the kit; return its exit code and the rows by case."""
    exit_code = main([*options, "--output", "json", "--", *command])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return exit_code, {f"{row['stage']}: {row['case']}": row for row in rows}


JAVA = ["java", "-jar", str(JAR)]
NEEDS_JAVA = pytest.mark.skipif(not JAR.exists(), reason="`make java` builds the client for Java")


@pytest.mark.timeout(900)
def test_the_clients_conform_in_one_group(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Groups are mixed with Python's client; nightly each client is judged, with more kills."""
    options = ["--stages", "guarded", "--kills", "3", "--transactions", "60"]
    command = JAVA if JAR.exists() else [*PYTHON]

    exit_code, rows = judge(capsys, [*options, "--folder", str(tmp_path / "kit")], command)

    assert {row["verdict"] for row in rows.values()} == {"held"}, rows
    assert exit_code == 0
    assert len(rows) == len(WITH_A_PIPELINE) + 1


@pytest.mark.nightly  # of the kit alone
def test_a_client_that_breaks_rules_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--stages", "alone", "--folder", str(tmp_path / "kit")]

    exit_code, rows = judge(capsys, options, [sys.executable, "-c", BROKEN])

    failed = {row["case"] for row in rows.values() if row["verdict"] == "failed"}
    broken = (
        limit_cases.unusable_names_are_refused,
        check_cases.requests_age_by_the_brokers_clock,
    )
    assert failed == {(case.__doc__ or "").splitlines()[0] for case in broken}, rows
    assert exit_code == 1


def test_each_case_says_what_must_hold() -> None:
    cases = [*WITH_A_PIPELINE, *WITHOUT, LAST]
    said = [(case.__doc__ or "").splitlines()[0] for case in cases]

    assert all(line.endswith(".") for line in said)
    assert len(set(said)) == len(cases)
    assert {case.__module__.rpartition(".")[2] for case in cases} == {
        one.__name__.rpartition(".")[2]
        for one in (check_cases, kill_cases, limit_cases, record_cases)
    }


@pytest.mark.nightly
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(
    "command", [pytest.param(PYTHON, id="python"), pytest.param(JAVA, id="java", marks=NEEDS_JAVA)]
)
def test_the_clients_conform_with_many_kills(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--kills", "20", "--transactions", "10000", "--folder", str(tmp_path / "kit")]

    exit_code, rows = judge(capsys, options, [*command])

    assert exit_code == 0, rows
