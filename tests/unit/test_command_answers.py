"""What short commands answer, in a process of the test's own."""

from __future__ import annotations

import json
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from checkback.commands import broker, ledger, topics
from checkback.commands.shared.app import execute
from checkback.commands.shared.output import scan_progress
from checkback.deploy.broker_files import BrokerFolder, BrokerRecord


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def answer(
    command: Any, words: list[str], capsys: pytest.CaptureFixture[str]
) -> tuple[int, dict[str, Any]]:
    """Return a command's exit code, and what it says in JSON."""
    code = execute(command, [*words, "--output", "json"])
    told = capsys.readouterr()
    return code, json.loads(told.out or told.err)


def test_a_ledger_that_is_not_set_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    code, told = answer(ledger.command, ["view"], capsys)

    assert (code, told["error"]["message"]) == (2, "ledger is not set.")


@pytest.mark.parametrize("name", ["RMQ_SYS_TRANS_OP_HALF_TOPIC", "no topic's name"])
def test_a_name_that_is_no_real_topic_is_refused_before_a_broker_is_asked(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = ["--bootstrap-servers", "127.0.0.1:1"]
    code, told = answer(topics.command, ["create", *nowhere, "--real-topic", name], capsys)

    assert (code, told["error"]["fields"]["topic"]) == (2, name)


def test_a_folder_without_a_broker_has_none_to_stop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = ["--data-dir", str(tmp_path)]

    assert answer(broker.command, ["status", *folder], capsys) == (1, {"running": False})
    stopped = answer(broker.command, ["stop", *folder], capsys)
    assert stopped == (0, {"stopped": False, "pid": None})


def test_a_running_broker_can_not_get_another_port(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = BrokerRecord(1, "127.0.0.1:9092")
    monkeypatch.setattr(BrokerFolder, "running", lambda _: record)
    start = ["start", "--data-dir", str(tmp_path)]

    code, told = answer(broker.command, [*start, "--port", "9093"], capsys)
    assert (code, told["error"]["message"]) == (
        2,
        "The folder's broker already runs at 127.0.0.1:9092.",
    )
    code, told = answer(broker.command, [*start, "--port", "9092"], capsys)
    assert (code, told["bootstrap_servers"]) == (0, "127.0.0.1:9092")


def test_a_scan_shows_its_bar_only_to_somebody_who_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    for terminal, shows in ((Terminal(), True), (StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", terminal)
        with scan_progress() as advance:
            advance("half-topic", 5, 10)
        assert ("half-topic" in terminal.getvalue()) is shows
