"""A pipeline process is read, stopped and killed; a small program stands in for Spark here."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import LifeCycleError, OperationalError
from checkback.testing.pipeline_process import RUN, PipelineProcess, pipeline_command
from checkback.testing.waiting import wait_until

STAND_IN = """
import json, os, signal, sys, threading
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
def say(event, **facts):
    print(json.dumps({"event": event, **facts}), flush=True)
say("started", pid=os.getpid(), given=sys.argv[1:], mine=os.environ.get("MINE"))
say("progress", pending=2)
stop.wait()
say("stopped")
"""
BREAKS = """
import sys
print('{"error": {"message": "No broker.", "remedy": "Start one."}}', file=sys.stderr)
sys.exit(3)
"""
SETTINGS = Settings(bootstrap_servers="kafka:9092", check_max=4)


def process(folder: Path, code: str = STAND_IN) -> PipelineProcess:
    return PipelineProcess(SETTINGS, folder / "run", {"MINE": "yes"}, (sys.executable, "-c", code))


def test_a_pipeline_is_run_by_the_command_with_its_settings_in_a_file(tmp_path: Path) -> None:
    config = tmp_path / "checkback.toml"

    assert pipeline_command(config, options=["--x"]) == [
        *RUN, "--config", str(config), "--output", "json", "--x",
    ]  # fmt: skip


def test_its_lines_are_heard_until_it_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHECKBACK_CHECK_MAX", "9")
    with process(tmp_path) as pipeline:
        started = pipeline.wait_for("started")
        assert started["pid"] == pipeline.pid
        assert started["mine"] == "yes"
        assert started["given"][1] == str(tmp_path / "run" / "checkback.toml")
        assert pipeline.wait_for("progress")["pending"] == 2
        assert pipeline.is_alive
        assert pipeline.terminate() == 0
        pipeline.wait_for_jvm()
    assert [one["event"] for one in pipeline.drain()] == ["started", "progress", "stopped"]
    assert "check_max = 4" in (tmp_path / "run" / "checkback.toml").read_text()


@pytest.mark.parametrize("driver_only", [True, False])
def test_killed_it_can_be_started_again(tmp_path: Path, driver_only: bool) -> None:
    with process(tmp_path) as pipeline:
        first = pipeline.wait_for("started")["pid"]
        pipeline.kill(driver_only=driver_only)
        assert pipeline.wait() == -signal.SIGKILL
        assert not pipeline.is_alive
        pipeline.start()
        assert pipeline.wait_for("started")["pid"] != first
    assert not pipeline.is_alive


def test_what_it_said_last_is_in_the_error(tmp_path: Path) -> None:
    with (
        process(tmp_path, BREAKS) as pipeline,
        pytest.raises(OperationalError, match="No broker") as found,
    ):
        pipeline.wait_for("started")

    assert found.value.remedy == "Start one."
    assert pipeline.wait() == 3
    assert "No broker." in pipeline.errors()


def test_an_event_that_does_not_come_is_an_error(tmp_path: Path) -> None:
    with (
        process(tmp_path) as pipeline,
        pytest.raises(OperationalError, match="did not say 'other'"),
    ):
        pipeline.wait_for("other", timeout_s=0.2)


def test_one_that_was_not_started_says_so(tmp_path: Path) -> None:
    with pytest.raises(LifeCycleError):
        process(tmp_path).wait()


def test_waiting_ends_when_it_holds_and_fails_when_it_does_not() -> None:
    answers = iter([False, True])
    wait_until(lambda: next(answers))

    with pytest.raises(AssertionError, match="not within 0 s: the moon"):
        wait_until(lambda: False, 0, "the moon")
