"""Signals that reach more than the main process, as a service manager sends them."""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.integration.running import COMMIT, Pipeline, Topics, wait_until

from checkback.deploy.admin import admin_client
from checkback.deploy.broker import QUICK_START, EmbeddedBroker

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


def test_sigterm_to_every_process_ends_the_pipeline_in_order(
    topics: Topics, tmp_path: Path
) -> None:
    """systemd's default (KillMode=control-group); it ended with 3 and ninety lines of traces."""
    settings = topics.settings(tmp_path / "checkpoint")
    real = f"{topics.prefix}orders"
    topics.create(settings, [real], ["g"])
    sent = [topics.send_half(b"%d" % number, real) for number in range(50)]

    with Pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started")
        wait_until(lambda: pipeline.wait_for("progress")["pending"] == 50, what="all pending")
        for number, at in enumerate(sent):
            topics.send_op(at, str(number), COMMIT)
        for pid in processes_below(pipeline.pid):
            with suppress(ProcessLookupError):  # the JVM runs a chmod now and then
                os.kill(pid, signal.SIGTERM)
        assert pipeline.wait(120) == 0
        pipeline.wait_for("stopped")
        assert pipeline.errors() == ""
        pipeline.start()
        wait_until(lambda: len(topics.bodies(real)) == 50, what="finals after the restart")

    assert topics.bodies(real) == sorted(str(number) for number in range(50))


def test_sigterm_to_all_but_the_driver_ends_none_of_them(topics: Topics, tmp_path: Path) -> None:
    """The driver decides when they end. Workers ended, and a batch on five of them failed."""
    settings = topics.settings(tmp_path / "checkpoint")
    real = f"{topics.prefix}orders"
    topics.create(settings, [real], ["g"])

    with Pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started")
        for number in range(10):
            topics.send_op(topics.send_half(b"%d" % number, real), str(number), COMMIT)
        wait_until(lambda: len(topics.bodies(real)) == 10, what="finals")
        before = commands_below(pipeline.pid).items()
        for number in range(10, 20):
            topics.send_op(topics.send_half(b"%d" % number, real), str(number), COMMIT)
        wait_until(lambda: len(topics.bodies(real)) == 20, what="finals")
        # Those that were there a batch ago: the JVM runs a chmod now and then, which ends.
        commands = dict(before & commands_below(pipeline.pid).items())
        others = list(commands)
        assert any(b"worker_daemon" in command for command in commands.values())
        for pid in others:
            os.kill(pid, signal.SIGTERM)
        for number in range(20, 40):
            topics.send_op(topics.send_half(b"%d" % number, real), str(number), COMMIT)
        wait_until(lambda: len(topics.bodies(real)) == 40, what="finals")
        assert [commands[pid] for pid in others if not is_process(pid)] == []
        assert pipeline.terminate() == 0
        wait_until(lambda: not any(map(is_process, others)), what="all ended")


def sink_process_of(pid: int) -> int:
    commands = {one: Path(f"/proc/{one}/cmdline").read_bytes() for one in processes_below(pid)}
    return next(one for one, said in commands.items() if b"checkback.sinks.process" in said)


@pytest.mark.nightly
@pytest.mark.timeout(400)
@pytest.mark.parametrize("silent", ["broker", "sink"])
def test_sigterm_ends_a_job_that_gets_no_further(silent: str, tmp_path: Path) -> None:
    """In the time that the unit file grants; the batch is interrupted, and nothing is lost."""
    with EmbeddedBroker(tmp_path / "broker", jvm_options=QUICK_START) as own:
        topics = Topics(own.bootstrap_servers, "silent-")
        settings = topics.settings(tmp_path / "checkpoint")
        real = f"{topics.prefix}orders"
        topics.create(settings, [real], ["g"])

        def commit(first: int, last: int) -> None:
            for number in range(first, last):
                topics.send_op(topics.send_half(b"%d" % number, real), str(number), COMMIT)

        with Pipeline(settings, tmp_path / "run") as pipeline:
            pipeline.wait_for("started")
            commit(0, 20)
            wait_until(lambda: len(topics.bodies(real)) == 20, what="finals")
            blocked = own.pid if silent == "broker" else sink_process_of(pipeline.pid)
            assert blocked is not None
            if silent == "sink":
                os.kill(blocked, signal.SIGSTOP)
            commit(20, 40)
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


def test_what_spark_says_goes_to_a_file_that_the_error_names(
    topics: Topics, tmp_path: Path
) -> None:
    settings = topics.settings(tmp_path / "checkpoint")
    topics.create(settings, [], [])

    with Pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started")
        pipeline.wait_for("progress")
        with admin_client(topics.bootstrap_servers, {}) as admin:
            admin.delete_topics([topics.names.half])
        assert pipeline.wait(200) == 3
        (line,) = pipeline.errors().splitlines()

    assert "Spark's traces are in" in line
    log = Path(line.rpartition("Spark's traces are in ")[2].split('"')[0].rstrip("."))
    assert "UnknownTopicOrPartition" in log.read_text()
    log.unlink()
