"""What short commands answer, in a process of the test's own and without Spark."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from click import Command

from checkback.checkpoints.own_files.running import told_as_running
from checkback.commands import broker, ledger, topics, tx
from checkback.commands.checkpoint import rebuild, repartition
from checkback.commands.jars import command
from checkback.commands.shared.app import execute
from checkback.deploy.broker_files import BrokerFolder, BrokerRecord
from checkback.deploy.jars import USUAL_CONFS, ensure_jars, jar_paths, read_lock
from checkback.streaming.spark.java_classes import java_sources


def answer(
    command: Any, words: list[str], capsys: pytest.CaptureFixture[str]
) -> tuple[int, dict[str, Any]]:
    """Return a command's exit code, and what it says in JSON."""
    code = execute(command, [*words, "--output", "json"])
    told = capsys.readouterr()
    return code, json.loads(told.out or told.err)


def test_a_ledger_that_is_not_set_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    code, told = answer(ledger.command, ["maintain"], capsys)

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


USED_WRONGLY = 2
REFUSED = 4
BROKERS = ("--bootstrap-servers", "127.0.0.1:1")


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Spark; it took 15 seconds to hear that a setting is missing."""

    def start(*_: Any) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("checkback.commands.checkpoint.find_java", lambda: None)
    monkeypatch.setattr("checkback.commands.checkpoint.pipeline_jars", lambda _: [])
    monkeypatch.setattr("checkback.streaming.spark.session.start_session", start)
    monkeypatch.setattr("checkback.operations.rebuild.rebuild.start_session", start)


@pytest.mark.parametrize(("command", "more"), [(rebuild, ()), (repartition, ("3",))])
def test_a_missing_setting_is_told_without_spark(
    capsys: pytest.CaptureFixture[str], command: Command, more: tuple[str, ...]
) -> None:
    assert execute(command, [*more, "--checkpoint", "c"]) == USED_WRONGLY

    told = " ".join(capsys.readouterr().err.split())
    assert "bootstrap_servers is not set. Set it in the file that --config names" in told


def test_a_repartition_beside_a_pipeline_is_refused_without_spark(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "checkback").mkdir()

    with told_as_running(tmp_path):
        exit_code = execute(repartition, ["3", "--checkpoint", str(tmp_path), *BROKERS])

    assert exit_code == REFUSED
    assert "The pipeline still runs" in capsys.readouterr().err


def test_a_folder_that_is_no_checkpoint_is_told_without_spark(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert execute(repartition, ["3", "--checkpoint", str(tmp_path), *BROKERS]) == USED_WRONGLY

    assert "is not the checkpoint of a pipeline" in capsys.readouterr().err


GIVEN = (
    "resolve", "id", "--commit", "--why", "it was paid", "--operator", "ann",
    "--bootstrap-servers", "127.0.0.1:1",
)  # fmt: skip


def test_both_verdicts_at_once_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The last one was taken."""
    assert execute(tx.command, [*GIVEN, "--rollback"]) == 2
    assert "Give --commit or --rollback, one of them." in capsys.readouterr().err


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the usual jars, and with an empty file for each other jar of the lock."""
    for conf in USUAL_CONFS:
        (tmp_path / conf).symlink_to(ensure_jars(conf)[0].parent)
    monkeypatch.setenv("CHECKBACK_JARS", str(tmp_path))
    for conf in ("delta", "s3"):
        (tmp_path / conf).mkdir()
        for name in read_lock()[conf]:
            (tmp_path / conf / name).touch()
    return tmp_path


def test_every_jar_is_named_with_its_place(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(command, ["fetch", "--output", "json"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert told["folder"] == str(folder)
    assert told["jars"] == {
        conf: [str(path) for path in jar_paths(conf)] for conf in ("spark", "kafka")
    }
    with zipfile.ZipFile(told["classes"]) as classes:
        compiled = {name.partition("/")[2] for name in classes.namelist()}
    assert {name.replace(".java", ".class") for name in java_sources()} <= compiled


@pytest.mark.parametrize("conf", ["delta", "s3"])
def test_jars_of_an_option_are_verified_as_the_usual_ones_are(
    conf: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(command, ["fetch", f"--{conf}"]) == 3

    assert f"The jar {folder / conf}" in capsys.readouterr().err
