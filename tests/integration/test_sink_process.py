"""The sink's own process, without Spark: this process is the task that asks it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Listener
from pathlib import Path
from threading import Thread

import pytest
from tests.integration.running import wait_until
from tests.integration.sinking import World, commits

from checkback.protocol.errors import CheckpointError, OperationalError
from checkback.sinks.process import key as process_key
from checkback.sinks.process.client import SinkProcess
from checkback.sinks.process.writer_pool import WriteRequest
from checkback.sinks.report import BatchReport


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


def part(world: World, batch_id: int, *offsets: int) -> WriteRequest:
    return WriteRequest(world.settings, 0, batch_id, [commits(*offsets).pack()])


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

    assert [one.report.counts["finals"] for one in answers] == [1, 1, 1]
    assert sorted(bodies(world)) == [b"one", b"two", b"zero"]
    assert len(listening(sink)) == 1


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

    assert skipped.report.skipped
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


def fallbacks(report: BatchReport) -> int:
    return report.counts["native_fallbacks"]


def test_what_it_ended_over_is_written_without_its_compiled_part_and_the_next_with_it(
    world: World, sink: SinkProcess
) -> None:
    world.halves([b"zero", b"one"])
    process_key.write_key(sink.address)
    key = process_key.read_key(sink.address)
    with Listener(str(sink.address), "AF_UNIX", authkey=key) as dying:
        Thread(target=end_over_one, args=(dying,), daemon=True).start()
        with pytest.raises(OperationalError, match="ended while it wrote"):
            sink.write(part(world, 0, 0))

    again, following = sink.write(part(world, 0, 0)), sink.write(part(world, 1, 1))

    assert [fallbacks(one.report) for one in (again, following)] == [1, 0]
    assert sorted(bodies(world)) == [b"one", b"zero"]


def end_over_one(dying: Listener) -> None:
    """Take a request, and end as a process does that a defect of the compiled part killed."""
    with dying.accept() as connection:
        connection.recv()


def test_who_has_no_key_is_not_served(world: World, sink: SinkProcess) -> None:
    sink.write(part(world, 0))

    with pytest.raises((AuthenticationError, EOFError, OSError)):
        Client(str(sink.address), "AF_UNIX", authkey=b"guessed")

    assert sink.write(part(world, 0)).report.skipped
    assert len(listening(sink)) == 1


def test_a_listener_without_the_key_is_not_believed(world: World, sink: SinkProcess) -> None:
    process_key.write_key(sink.address)
    with Listener(str(sink.address), "AF_UNIX", authkey=b"another's") as foreign:
        Thread(target=refuse_one, args=(foreign,), daemon=True).start()

        sink.write(part(world, 0))

    assert len(listening(sink)) == 1


def refuse_one(foreign: Listener) -> None:
    with suppress(OSError, EOFError, AuthenticationError):
        foreign.accept()


def test_a_key_is_read_by_its_user_only_and_through_no_link(tmp_path: Path) -> None:
    address = tmp_path / "1-0"
    process_key.write_key(address)
    file = process_key.key_file(address)

    assert file.stat().st_mode & 0o077 == 0
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        process_key.read_key(address)


def test_a_folder_that_is_a_link_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / f"checkback-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr("checkback.sinks.process.client.ADDRESS_BYTES_MAX", 1_000)

    with pytest.raises(OperationalError, match="no folder of this user's"):
        SinkProcess.of(0)


def test_as_many_processes_share_the_state_partitions_as_the_executor_has_cores() -> None:
    assert len({SinkProcess.of(number, 3).address for number in range(16)}) == 3
    cores = len(os.sched_getaffinity(0))
    assert len({SinkProcess.of(number).address for number in range(16)}) == min(cores, 16)
