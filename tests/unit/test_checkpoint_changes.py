"""The commands that change a checkpoint tell what is wrong before they start Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click import Command

from checkback.checkpoints.own_files.running import told_as_running
from checkback.commands.checkpoint import rebuild, repartition
from checkback.commands.shared.app import execute

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
    assert "still runs over" in capsys.readouterr().err


def test_a_folder_that_is_no_checkpoint_is_told_without_spark(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert execute(repartition, ["3", "--checkpoint", str(tmp_path), *BROKERS]) == USED_WRONGLY

    assert "is not the checkpoint of a pipeline" in capsys.readouterr().err
