"""The console's sources, sampler, audit and log, apart from its pages."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.console.console_stage import NOW_MS, MadeUpFacts, make_stage

from checkback.checkpoints.files import OUR_FOLDER
from checkback.checkpoints.own_files.running import told_as_running
from checkback.commands.console import audit_text
from checkback.commands.shared.app import NOUNS, LazyGroup, execute
from checkback.console import facts as kafka_facts
from checkback.console.audit import Audit, AuditEntry
from checkback.console.facts import GroupRow, KafkaFacts
from checkback.console.overview import History, sampling
from checkback.console.pending_view import PendingView
from checkback.console.rendering import rendered
from checkback.operations.doctor.judgements import GroupFacts, judge_group
from checkback.protocol.configuration import Settings


@pytest.mark.parametrize("host", ["127.0.0.1", "192.0.2.1", "nowhere.invalid"])
def test_a_console_that_can_not_listen_says_what_to_do(
    host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A port that is taken, an address of another machine, a name that nobody knows."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        arguments = ["console", "--host", host, "--port", port, "--anybody-reads"]
        code = execute(LazyGroup(NOUNS), [*arguments, "--output", "json"])

    told = json.loads(capsys.readouterr().err)["error"]
    assert code == told["exit_code"] == 3
    assert f"{host} at port {port}: " in told["message"]
    assert "--port" in told["remedy"]


@pytest.fixture
def loggers() -> Iterator[list[logging.Logger]]:
    """The loggers of console and server, as they were afterwards."""
    found = [logging.getLogger(name) for name in ("checkback", "uvicorn")]
    children = [one.getChild("error") for one in found]
    before = [(one, list(one.handlers), one.level, one.propagate) for one in found + children]
    for one in found:
        one.handlers.clear()
    for one in children:
        one.setLevel(logging.NOTSET)  # a server of another test may have set it
    yield found
    for one, handlers, level, propagate in before:
        one.handlers[:], one.propagate = handlers, propagate
        one.setLevel(level)


def test_the_console_and_its_server_log_as_the_settings_say(
    loggers: list[logging.Logger], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["console", "--host", "192.0.2.1", "--anybody-reads", "--set", "log_format=json"]
    execute(LazyGroup(NOUNS), [*arguments, "--set", "log_level=ERROR"])  # can't listen there
    capsys.readouterr()

    for one in loggers:
        one.getChild("error").warning("quiet")
        one.getChild("error").error("no snapshot")

    told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(one["logger"], one["msg"]) for one in told] == [
        ("checkback.error", "no snapshot"), ("uvicorn.error", "no snapshot"),
    ]  # fmt: skip


def test_a_group_that_answers_unknown_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = GroupFacts("order-service", 4, 540_000, True, 1, asked_again=3)
    rows = [GroupRow(facts, judge_group(facts))]
    says = "3 asked about more than once; live members: 1"
    monkeypatch.setattr(MadeUpFacts, "groups", lambda _: rows)

    assert f" {says}. <em>" in make_stage(tmp_path).client().get("/parts/groups").text


def test_without_a_checkpoint_no_group_is_called_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broker:
        def list_topics(self, **_: object) -> object:
            return SimpleNamespace(topics={"RMQ_SYS_TRANS_CHECK_order-service": None})

    monkeypatch.setattr(kafka_facts, "live_members", lambda *_: 0)
    settings = Settings(bootstrap_servers="localhost:1")

    rows = KafkaFacts(settings, PendingView(settings), lambda: 0, Broker()).groups()

    page = rendered("parts/groups.html", {"groups": rows})
    assert ("no live member" in page, "can't be read" in page) == (True, True)
    assert "idle" not in page


def test_a_pipeline_that_is_down_is_the_first_that_is_told(tmp_path: Path) -> None:
    (tmp_path / "checkpoint" / OUR_FOLDER).mkdir(parents=True)
    stage = make_stage(tmp_path, checkpoint=str(tmp_path / "checkpoint"))
    stage.look()
    down = "None runs over the checkpoint, so nothing is decided or delivered."
    page = stage.client().get("/parts/live").text
    assert page.index(down) < page.index("Oldest pending")

    with told_as_running(tmp_path / "checkpoint"):
        stage.look()
        assert down not in stage.client().get("/parts/live").text


def test_a_sampler_goes_on_when_a_look_fails(tmp_path: Path) -> None:
    stage, looks = make_stage(tmp_path), []

    class Failing:
        def read(self) -> Any:
            looks.append(1)
            if len(looks) < 3:
                raise RuntimeError("a defect")
            return stage.snapshots.read()

    history = History()
    with sampling(Failing(), history, interval_s=0.001):  # type: ignore[arg-type]
        while not history.taken:
            pass

    assert history.latest is not None
    assert history.latest.pending == 11


def test_the_audit_keeps_the_newest_and_hands_all_on() -> None:
    told: list[AuditEntry] = []
    audit = Audit(told.append)
    entry = AuditEntry(NOW_MS, "kim", "resolve", "0:4", "commit", "paid", says="Committed.")
    for number in range(250):
        audit.add(replace(entry, target=f"0:{number}"))

    assert (len(told), len(audit.newest()), audit.newest()[0].target) == (250, 200, "0:249")
    assert entry.as_data()["event"] == "audit"
    assert audit_text(entry).endswith("kim  resolve  commit  0:4  done  Committed.  paid")
    forged = replace(entry, target="0:4\n2026-11-26  ann  resolve")
    assert "\n" not in audit_text(forged), "a form makes no line of its own"
