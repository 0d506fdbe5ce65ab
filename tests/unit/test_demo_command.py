"""Output and exit codes of ``checkback demo``; tests/integration/test_demo.py tests the run
itself."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from checkback.commands import demo
from checkback.commands.shared.app import execute
from checkback.demo.audit import AuditFinding, AuditFindingKind, Evidence
from checkback.demo.report import DemoReport, fate_lines
from checkback.demo.run import Demonstration
from checkback.protocol.errors import OperationalError

GREEN = DemoReport(1, 40.0, 4, fate_lines([], Evidence()), [], [])
MISSING = AuditFinding(
    AuditFindingKind.MISSING, "order-0007", "committed locally, not on orders.retail"
)


@pytest.fixture(autouse=True)
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "ensure_jars", lambda _: [])
    started = SimpleNamespace(bootstrap_servers="127.0.0.1:1")
    monkeypatch.setattr(demo, "EmbeddedBroker", lambda *_, **__: nullcontext(started))


def run_demo(monkeypatch: pytest.MonkeyPatch, report: DemoReport, *arguments: str) -> int:
    # A real run takes a minute and finds nothing wrong, so this test fakes a finding.
    monkeypatch.setattr(Demonstration, "run", lambda _: report)
    return execute(demo.command, ["--keep", *arguments])


def test_an_audit_without_findings_exits_with_0(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_demo(monkeypatch, GREEN, "--data-dir", str(tmp_path / "new")) == 0
    shown = capsys.readouterr().out
    assert "Audit passed" in shown
    assert max(len(line) for line in shown.splitlines() if str(tmp_path) not in line) <= 80


def test_a_finding_is_shown_and_exits_with_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = replace(GREEN, findings=[MISSING])

    assert run_demo(monkeypatch, report, "--data-dir", str(tmp_path / "new")) == 1
    shown = capsys.readouterr().out
    assert max(len(line) for line in shown.splitlines() if str(tmp_path) not in line) <= 80
    assert "missing: order-0007: committed locally, not on orders.retail" in shown
    assert "Audit passed" not in shown


def test_json_is_one_document_with_the_findings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = replace(GREEN, findings=[MISSING])
    folder = tmp_path / "new"

    assert run_demo(monkeypatch, report, "--data-dir", str(folder), "--output", "json") == 1
    document = json.loads(capsys.readouterr().out)
    assert document["audit_passed"] is False
    assert document["findings"][0]["kind"] == "missing"
    assert document["data_dir"] == str(folder)


def test_a_folder_with_something_in_it_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis").touch()

    assert run_demo(monkeypatch, GREEN, "--data-dir", str(tmp_path)) == 2
    assert "not empty" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["thesis"]


def test_after_a_failure_it_says_where_the_logs_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: Demonstration) -> DemoReport:
        raise OperationalError("The pipeline ended.")

    monkeypatch.setattr(Demonstration, "run", fail)
    folder = tmp_path / "new"
    code = execute(demo.command, ["--data-dir", str(folder)])

    assert code == 3
    said = capsys.readouterr().err
    assert str(folder) in said
    assert "The pipeline ended." in said


def test_without_java_it_says_so_and_leaves_no_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert run_demo(monkeypatch, GREEN, "--data-dir", str(tmp_path / "new")) == 3
    assert "contains no Java" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_too_few_orders_are_used_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_demo(monkeypatch, GREEN, "--orders", "3") == 2
