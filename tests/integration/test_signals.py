"""Signals that reach more than the main process, as a service manager sends them."""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.integration.running import COMMIT, Pipeline, Topics, commit, deployed, wait_until
from tests.integration.shared_jvm import SharedJvm

from checkback.deploy.broker import QUICK_START, EmbeddedBroker

LISTENS = "0A"
"""Of a socket in /proc/net/tcp."""
LOOPBACK = {"0100007F", "0" * 24 + "01000000", "0000000000000000FFFF00000100007F"}
"""127.0.0.1 and ::1, and 127.0.0.1 as IPv6, as /proc/net/tcp and tcp6 write them."""
UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "checkback.service"


@pytest.fixture
def topics(bootstrap_servers: str, unique: str) -> Topics:
    return Topics(bootstrap_servers, unique)


def processes_below(pid: int) -> list[int]:
    """Return a process and all that descend from it."""
    below: list[int] = []
    with suppress(OSError):  # it has ended
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            below += map(int, path.read_text().split())
    return [pid, *(one for child in below for one in processes_below(child))]


def commands_below(pid: int) -> dict[int, bytes]:
    """Return the command lines of all that descend from a process; some end while we look.

    One without a command line has ended, and its parent has not asked about it yet.
    """
    found = {}
    for one in processes_below(pid)[1:]:
        with suppress(OSError):
            found[one] = Path(f"/proc/{one}/cmdline").read_bytes()
    return {one: command for one, command in found.items() if command}


def is_process(pid: int) -> bool:
    """Tell whether a process has not ended; one that nobody waited for has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


def listening_addresses(pid: int) -> set[str]:
    """Return the addresses, as /proc writes them, on which a process and its children listen."""
    inodes = set()
    for process in processes_below(pid):
        for link in Path(f"/proc/{process}/fd").glob("*"):
            with suppress(OSError):  # it was closed meanwhile
                inodes.add(str(link.readlink()))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENS and f"socket:[{fields[9]}]" in inodes:
                found.add(fields[1].partition(":")[0])
    return found


def test_sigterm_ends_the_pipeline_in_order_and_only_its_driver_heeds_it(
    topics: Topics, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    """The driver decides when the others end; systemd signals all of them (KillMode=control-group).

    Workers ended at once, and a batch on five of them failed; a signal to all ended the job with 3
    and ninety lines of traces.
    """
    settings, real = deployed(topics, tmp_path, transaction_timeout_ms=600_000)

    with Pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started")
        assert set() < listening_addresses(pipeline.pid) <= LOOPBACK, "no other interface"
        for first in (0, 10):
            before = commands_below(pipeline.pid).items()
            commit(topics, real, *map(str, range(first, first + 10)))
            wait_until(lambda: len(topics.bodies(real)) == first + 10, what="finals")  # noqa: B023
        # Those that were there a batch ago: the JVM runs a chmod now and then, which ends.
        commands = dict(before & commands_below(pipeline.pid).items())
        assert any(b"python_workers" in command for command in commands.values())
        for pid in commands:
            os.kill(pid, signal.SIGTERM)
        commit(topics, real, *map(str, range(20, 40)))
        wait_until(lambda: len(topics.bodies(real)) == 40, what="finals")
        assert [command for pid, command in commands.items() if not is_process(pid)] == []

        sent = {number: topics.send_half(b"%d" % number, real) for number in range(40, 90)}
        wait_until(lambda: pipeline.wait_for("progress")["pending"] == 50, what="all pending")
        for number, at in sent.items():
            topics.send_op(at, str(number), COMMIT)
        for pid in processes_below(pipeline.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        assert pipeline.wait(120) == 0
        pipeline.wait_for("stopped")
        assert pipeline.errors() == ""
        wait_until(lambda: not any(map(is_process, commands)), what="all ended")
    with shared_jvm.pipeline(settings, tmp_path / "again"):
        wait_until(lambda: len(topics.bodies(real)) == 90, what="finals after the restart")

    assert topics.bodies(real) == sorted(str(number) for number in range(90))


def sink_process_of(pid: int) -> int:
    commands = {one: Path(f"/proc/{one}/cmdline").read_bytes() for one in processes_below(pid)}
    return next(one for one, said in commands.items() if b"checkback.sinks.process.server" in said)


@pytest.mark.nightly
@pytest.mark.timeout(400)
@pytest.mark.parametrize("silent", ["broker", "sink"])
def test_sigterm_ends_a_job_that_gets_no_further(silent: str, tmp_path: Path) -> None:
    """In the time that the unit file grants; the batch is interrupted, and nothing is lost."""
    with EmbeddedBroker(tmp_path / "broker", jvm_options=QUICK_START) as own:
        topics = Topics(own.bootstrap_servers, "silent-")
        settings, real = deployed(topics, tmp_path)

        with Pipeline(settings, tmp_path / "run") as pipeline:
            pipeline.wait_for("started")
            commit(topics, real, *map(str, range(20)))
            wait_until(lambda: len(topics.bodies(real)) == 20, what="finals")
            blocked = own.pid if silent == "broker" else sink_process_of(pipeline.pid)
            assert blocked is not None
            if silent == "sink":
                os.kill(blocked, signal.SIGSTOP)
            commit(topics, real, *map(str, range(20, 40)))
            if silent == "broker":
                os.kill(blocked, signal.SIGSTOP)
            began_s = time.monotonic()
            try:
                assert pipeline.terminate(granted_s()) == 0
            finally:
                os.kill(blocked, signal.SIGCONT)
            print(f"ended after {time.monotonic() - began_s:.0f} s")
            pipeline.start()
            wait_until(lambda: len(topics.bodies(real)) >= 40, what="finals after the restart")
            assert pipeline.terminate() == 0

        assert topics.bodies(real) == sorted(str(number) for number in range(40))


def granted_s() -> float:
    """Return how long the service manager waits before it kills."""
    found = re.search(r"^TimeoutStopSec=(\d+)$", UNIT.read_text(), re.MULTILINE)
    assert found is not None
    return float(found[1])
