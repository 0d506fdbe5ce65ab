"""A watched process: how a query is started, what it reports, and what is said of a failure."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from bench.runs.batches import MeasuredBatch
from bench.runs.query import Launch, MonitoredProcess, Query, print_event
from bench.runs.trial import BenchSetting, Trial

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import OperationalError

TELLING = """
import json, signal, sys, threading
ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())
for counts in ({"finals": 2, "checks": 1}, {"finals": 3}):
    print(json.dumps({"event": "progress", "counts": counts}), flush=True)
ended.wait()
"""


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    settings = Settings(bootstrap_servers="127.0.0.1:9", spark={"spark.ui.enabled": "false"})
    return BenchSetting(settings, tmp_path, 7, 64, broker_pid=123).trial("one")


def test_a_query_is_started_with_the_trial_s_settings_and_its_own_event_log(trial: Trial) -> None:
    query = Query(trial, "job", program=["program"], options=["--seed", "7"])

    launch = query.prepare()

    [config] = trial.folder.glob("job/*.toml")
    written = tomllib.loads(config.read_text("utf-8"))
    assert written["topic_prefix"] == "one-"
    assert written["spark"]["spark.ui.enabled"] == "false"
    assert written["spark"]["spark.eventLog.dir"] == (trial.folder / "job" / "events").as_uri()
    assert list(launch.command)[:1] == ["program"]
    assert str(config) in launch.command
    assert list(launch.command)[-2:] == ["--seed", "7"]
    assert launch.broker_pid == 123


def test_settings_in_the_environment_do_not_reach_the_query(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHECKBACK_CHECK_MAX", "3")

    launch = Query(trial, "job").prepare()

    assert "CHECKBACK_CHECK_MAX" not in launch.environment


def test_counts_are_the_sums_of_the_progress_lines(trial: Trial) -> None:
    with Query(trial, "job", program=[sys.executable, "-c", TELLING]) as query:
        query.wait_until(lambda: len(query.progress()) == 2, 30)

        assert query.counts() == {"finals": 5, "checks": 1}
        assert query.batches() == []


def test_what_a_query_tells_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_event({"event": "started", "pid": 1})

    [line] = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {"event": "started", "pid": 1}


UNTIL_SIGTERM = """
import json, signal, sys, threading
ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())
print(json.dumps({"event": "started"}), flush=True)
ended.wait()
print(json.dumps({"event": "stopped"}), flush=True)
"""
FAILING = "import sys; print('the disk is full', file=sys.stderr); sys.exit(3)"


@dataclass(slots=True)
class Script(MonitoredProcess):
    """A Python program whose batches are those that a test gives it."""

    folder: Path
    text: str

    def prepare(self) -> Launch:
        command = [sys.executable, "-c", self.text]
        log = self.folder / "errors.log"
        return Launch("script", command, log, dict(os.environ))

    def batches(self) -> list[MeasuredBatch]:
        return [MeasuredBatch(number, 0, 10, rows=4) for number in range(len(self.notices))]


def test_a_process_that_is_stopped_has_said_everything(tmp_path: Path) -> None:
    with Script(tmp_path, UNTIL_SIGTERM) as script:
        script.wait_until(lambda: bool(script.notices), 30)
        assert [notice.event for _, notice in script.notices] == ["started"]
        script.stop()

    assert [notice.event for _, notice in script.notices] == ["started", "stopped", "ended"]
    assert all(at_ms >= script.launched_ms for at_ms, _ in script.notices)


def test_rows_of_all_batches_are_waited_for(tmp_path: Path) -> None:
    with Script(tmp_path, UNTIL_SIGTERM) as script:
        assert len(script.wait_for_rows(4, 30)) == 1
        with pytest.raises(OperationalError, match="too little progress within 0 s"):
            script.wait_for_rows(5, 0.2)


def test_a_process_that_ends_by_itself_is_a_failure_with_what_it_said(tmp_path: Path) -> None:
    with (
        Script(tmp_path, FAILING) as script,
        pytest.raises(OperationalError, match=r"The run script ended by itself\. the disk is full"),
    ):
        script.wait_until(lambda: False, 30)


def test_a_process_that_fails_while_it_stops_is_a_failure(tmp_path: Path) -> None:
    failing = UNTIL_SIGTERM + "sys.exit(4)"
    with Script(tmp_path, failing) as script:
        script.wait_until(lambda: bool(script.notices), 30)
        with pytest.raises(OperationalError, match="ended with exit code 4"):
            script.stop()


def test_no_process_is_left_where_the_block_fails(tmp_path: Path) -> None:
    with (
        pytest.raises(OperationalError, match="too little progress"),
        Script(tmp_path, UNTIL_SIGTERM) as script,
    ):
        script.wait_until(lambda: False, 0)

    assert script._child is not None
    assert not script._child.is_alive
