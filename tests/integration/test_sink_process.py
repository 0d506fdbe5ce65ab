"""The sink's own process, without Spark: this process is the task that asks it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.running import wait_until
from tests.integration.sinking import World, commits

from checkback.protocol.errors import CheckpointError, OperationalError
from checkback.sinks.process_link import SinkProcess
from checkback.sinks.report import BatchReport
from checkback.sinks.writers import WriteRequest


@pytest.fixture
def owner() -> Iterator[subprocess.Popen[bytes]]:
    """Stand in for the process that Spark starts its Python workers from."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


@pytest.fixture
def sink(owner: subprocess.Popen[bytes], tmp_path: Path) -> SinkProcess:
    # Not below tmp_path, which may be longer than a socket's path.
    return SinkProcess(Path("/tmp") / f"checkback-test-{owner.pid}", owner.pid)


def part(world: World, batch_id: int, *offsets: int, first_batch: int = 0) -> WriteRequest:
    return WriteRequest(world.settings, 0, batch_id, first_batch, [commits(*offsets).pack()])


def listening(sink: SinkProcess) -> list[int]:
    """Pids of the processes that serve this address."""
    found = []
    for one in Path("/proc").iterdir():
        if one.name.isdigit():
            try:
                words = (one / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if str(sink.address).encode() in words:
                found.append(int(one.name))
    return found


def bodies(world: World) -> list[bytes]:
    return [body or b"" for _, body, _ in world.read(world.real)]


def test_one_process_writes_batch_after_batch(world: World, sink: SinkProcess) -> None:
    world.halves([b"zero", b"one", b"two"])

    answers = [sink.write(part(world, batch_id, batch_id)) for batch_id in range(3)]

    assert [BatchReport.from_json(one.report).counts["finals"] for one in answers] == [1, 1, 1]
    assert sorted(bodies(world)) == [b"one", b"two", b"zero"]
    assert len(listening(sink)) == 1


def test_a_batch_that_is_asked_for_twice_is_written_once(world: World, sink: SinkProcess) -> None:
    world.halves([b"zero"])

    first, again = (sink.write(part(world, 0, 0)) for _ in range(2))

    assert not BatchReport.from_json(first.report).skipped
    assert BatchReport.from_json(again.report).skipped
    assert bodies(world) == [b"zero"]


def test_what_it_raises_reaches_the_task(world: World, sink: SinkProcess) -> None:
    with pytest.raises(CheckpointError, match="marker of state partition 0 is gone") as caught:
        sink.write(part(world, 7))

    assert "rebuild" in caught.value.remedy
    assert caught.value.fields["batch_id"] == 7


def test_an_error_that_is_none_of_ours_is_told_with_its_place(
    world: World, sink: SinkProcess
) -> None:
    damaged = part(world, 0)._replace(outcomes=[b"\xff no outcome"])

    with pytest.raises(OperationalError) as caught:
        sink.write(damaged)

    assert caught.value.message


def test_killed_it_is_started_anew_and_nothing_is_written_twice(
    world: World, sink: SinkProcess
) -> None:
    world.halves([b"zero", b"one"])
    sink.write(part(world, 0, 0))
    [pid] = listening(sink)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)  # its socket takes calls until the very end

    skipped = sink.write(part(world, 0, 0))
    sink.write(part(world, 1, 1))

    assert BatchReport.from_json(skipped.report).skipped
    assert bodies(world) == [b"zero", b"one"]
    assert listening(sink) not in ([], [pid])


def test_it_ends_with_its_owner_and_leaves_nothing_behind(
    world: World, sink: SinkProcess, owner: subprocess.Popen[bytes]
) -> None:
    sink.write(part(world, 0))

    owner.kill()
    owner.wait()

    wait_until(lambda: not listening(sink), what="its end")
    assert not sink.address.exists()
