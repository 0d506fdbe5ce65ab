"""A watched process: how a query is started, what it reports, and what is said of a failure."""

from __future__ import annotations

import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from bench.runs.batches import MeasuredBatch
from bench.runs.query import MonitoredProcess, Query
from bench.runs.trial import BenchSetting, Trial

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import OperationalError

PROGRAM = """
import json, signal, sys, threading
ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())
def say(event, **facts):
    print(json.dumps({"event": event, **facts}), flush=True)
"""
TELLING = (
    PROGRAM
    + """
say("progress", counts={"finals": 2, "checks": 1})
say("progress", counts={"finals": 3})
ended.wait()
"""
)
UNTIL_SIGTERM = (
    PROGRAM
    + """
say("started")
ended.wait()
say("stopped")
"""
)
FAILING = "import sys; print('the disk is full', file=sys.stderr); sys.exit(3)"


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    settings = Settings(bootstrap_servers="127.0.0.1:9", spark={"spark.ui.enabled": "false"})
    return BenchSetting(settings, tmp_path, 7, 64, broker_pid=123).trial("one")


def test_a_query_is_started_with_the_trial_s_settings_and_its_own_event_log(trial: Trial) -> None:
    query = Query(trial, "job", program=["program"], options=["--seed", "7"])
    query.folder.mkdir()

    command = query.command()

    [config] = trial.folder.glob("job/*.toml")
    written = tomllib.loads(config.read_text("utf-8"))
    assert written["topic_prefix"] == "one-"
    assert written["spark"]["spark.ui.enabled"] == "false"
    assert written["spark"]["spark.eventLog.dir"] == (trial.folder / "job" / "events").as_uri()
    assert command[0] == "program"
    assert str(config) in command
    assert list(command)[-2:] == ["--seed", "7"]


def test_counts_are_the_sums_of_the_progress_lines(trial: Trial) -> None:
    with Query(trial, "job", program=[sys.executable, "-c", TELLING]) as query:
        query.wait_until(lambda: len(query.progress()) == 2, 30)

        assert query.counts() == {"finals": 5, "checks": 1}
        assert query.batches() == []


@dataclass(slots=True)
class Script(MonitoredProcess):
    """A Python program whose batches are those that a test gives it."""

    text: str

    def command(self) -> list[str]:
        return [sys.executable, "-c", self.text]

    def batches(self) -> list[MeasuredBatch]:
        return [MeasuredBatch(number, 0, 10, rows=4) for number in range(len(self.notices))]


def test_a_process_that_is_stopped_has_said_everything(trial: Trial) -> None:
    with Script(trial, "script", UNTIL_SIGTERM) as script:
        script.wait_until(lambda: bool(script.notices), 30)
        assert [notice.event for _, notice in script.notices] == ["started"]
        script.stop()

    assert [notice.event for _, notice in script.notices] == ["started", "stopped", "ended"]
    assert all(at_ms >= script.launched_ms for at_ms, _ in script.notices)


def test_rows_of_all_batches_are_waited_for(trial: Trial) -> None:
    with Script(trial, "script", UNTIL_SIGTERM) as script:
        script.wait_for_rows(4, 30)
        assert len(script.batches()) == 1
        with pytest.raises(OperationalError, match="too little progress within 0 s"):
            script.wait_for_rows(5, 0.2)

    assert not script._child.is_alive


def test_a_process_that_ends_by_itself_is_a_failure_with_what_it_said(trial: Trial) -> None:
    with (
        Script(trial, "script", FAILING) as script,
        pytest.raises(OperationalError, match=r"The run script ended by itself\. the disk is full"),
    ):
        script.wait_until(lambda: False, 30)


def test_a_process_that_fails_while_it_stops_is_a_failure(trial: Trial) -> None:
    failing = UNTIL_SIGTERM + "sys.exit(4)"
    with Script(trial, "script", failing) as script:
        script.wait_until(lambda: bool(script.notices), 30)
        with pytest.raises(OperationalError, match="ended with exit code 4"):
            script.stop()
