"""Child processes are heard, and end whatever ends first."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from queue import SimpleQueue

import pytest
from tests.integration.running import wait_until

from checkback.deploy.watcher import is_alive
from checkback.testing.processes import Child, Notice

TALKS_UNTIL_TOLD = """
import json, signal, sys, threading
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
print(json.dumps({"event": "ready", "number": 7}), flush=True)
print("no JSON", flush=True)
stop.wait()
print(json.dumps({"event": "stopped"}), flush=True)
"""
STARTS_A_CHILD = """
import sys, time
from pathlib import Path
from queue import SimpleQueue
from checkback.testing.processes import Child
child = Child("c", [sys.executable, "-c", sys.argv[1]], Path(sys.argv[2]), SimpleQueue(), {})
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def inbox() -> SimpleQueue[Notice]:
    return SimpleQueue()


def start(code: str, log: Path, inbox: SimpleQueue[Notice]) -> Child:
    return Child("child", [sys.executable, "-c", code], log, inbox, {})


def test_a_child_is_heard_line_by_line_and_stopped(
    tmp_path: Path, inbox: SimpleQueue[Notice]
) -> None:
    child = start(TALKS_UNTIL_TOLD, tmp_path / "log", inbox)
    first = inbox.get(timeout=180)

    assert (first.source, first.event, first.fields) == ("child", "ready", {"number": 7})
    assert child.stop() == 0
    assert [inbox.get(timeout=180).event for _ in range(2)] == ["stopped", "ended"]


def test_a_killed_child_is_noticed(tmp_path: Path, inbox: SimpleQueue[Notice]) -> None:
    child = start(TALKS_UNTIL_TOLD, tmp_path / "log", inbox)
    inbox.get(timeout=180)
    os.kill(child.pid, signal.SIGKILL)
    notice = inbox.get(timeout=180)

    assert (notice.event, notice.fields["exit_code"]) == ("ended", -signal.SIGKILL)
    assert child.stop() == -signal.SIGKILL


def test_a_child_that_does_not_listen_is_stopped_by_force(
    tmp_path: Path, inbox: SimpleQueue[Notice]
) -> None:
    deaf = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{TALKS_UNTIL_TOLD}"
    child = start(deaf.replace("lambda *_: stop.set()", "signal.SIG_IGN"), tmp_path / "log", inbox)
    inbox.get(timeout=180)

    assert child.stop(timeout_s=0.2) == -signal.SIGKILL


def test_a_child_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTS_A_CHILD, TALKS_UNTIL_TOLD, str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child_pid = int(parent.stdout.readline())
        assert is_alive(child_pid)
        parent.kill()
    wait_until(lambda: not is_alive(child_pid))


def test_the_error_that_a_command_said_last_is_found(
    tmp_path: Path, inbox: SimpleQueue[Notice]
) -> None:
    code = """
import sys
print("some warning", file=sys.stderr)
print('{"error": {"message": "No broker.", "remedy": "Start one."}}', file=sys.stderr)
sys.exit(3)
"""
    child = start(code, tmp_path / "log", inbox)
    assert inbox.get(timeout=180).fields["exit_code"] == 3

    failed = child.failure("ended")
    assert (failed.message, failed.remedy) == ("The child ended. No broker.", "Start one.")


def test_without_such_an_error_the_last_line_is_told(
    tmp_path: Path, inbox: SimpleQueue[Notice]
) -> None:
    child = start("raise ValueError('broken')", tmp_path / "log", inbox)
    inbox.get(timeout=180)

    failed = child.failure("ended")
    assert failed.message == "The child ended. ValueError: broken"
    assert failed.remedy == f"Its log: {child.log}."
