"""A process that the bench watches: its notices, its end, and what is said of a failed one."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from checkback.bench.event_log import MeasuredBatch
from checkback.bench.monitored_process import Launch, MonitoredProcess
from checkback.protocol.errors import OperationalError

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
        return Launch("script", command, log, dict(os.environ), self.folder / "written")

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
