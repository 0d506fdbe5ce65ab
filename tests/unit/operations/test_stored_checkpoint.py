"""Commands that read a checkpoint, over one that a release left and without brokers."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from tests.programs import run_python

from checkback.commands.pending import command as pending_command
from checkback.commands.shared.app import execute
from checkback.operations.transactions import pending as pending_transactions
from checkback.sinks.kafka.read.record_reader import SILENCE_POLLS_MAX

STORED = Path(__file__).parents[2] / "data" / "releases" / "641b9cc" / "checkpoint.zip"


@pytest.fixture
def settings(tmp_path: Path) -> list[str]:
    """The settings of that checkpoint, as flags; nobody listens at the address."""
    folder = tmp_path / "checkpoint"
    with zipfile.ZipFile(STORED) as stored:
        stored.extractall(folder)
    return ["--checkpoint", str(folder), "--bootstrap-servers", "127.0.0.1:1"]


def test_whoever_asks_what_is_pending_waits_seconds_for_brokers_that_are_away(
    settings: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took as long as a job waits: two minutes."""
    assert pending_transactions.SILENCE_POLLS_MAX * 10 < SILENCE_POLLS_MAX
    monkeypatch.setattr(pending_transactions, "SILENCE_POLLS_MAX", 1)

    assert execute(pending_command, settings) == 3
    assert "The brokers gave nothing of RMQ_SYS_TRANS_HALF_TOPIC" in capsys.readouterr().err


WITHOUT_SPARK = """
import sys
for name in ("pyspark", "py4j", "pandas", "delta"):
    sys.modules[name] = None
import checkback.operations.doctor.doctor
from checkback.commands import main
sys.argv = ["checkback", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["checkpoint", "verify", "--files-only"], "whole up to 10"),
        (["discarded", "list", "--help"], "resumed"),
        (["refused", "resend", "--help"], "each once"),
        (["tx", "resolve", "--help"], "by hand"),
    ],
)
def test_operators_need_neither_spark_nor_py4j(
    settings: list[str], words: list[str], said: str
) -> None:
    """As after `pip install 'checkback[web]'`: a type alone brought py4j in."""
    named = [*settings, "--application-id", "release-641b9cc"]
    ran = run_python(WITHOUT_SPARK, *words, *named)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert said in ran.stdout
