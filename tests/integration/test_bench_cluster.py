"""The cluster that `checkback bench scale` measures on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from checkback.bench.repository.cluster import standalone_cluster
from checkback.bench.repository.control_group import control_group, inside
from checkback.protocol.errors import PrerequisiteError


@pytest.mark.nightly  # of the bench alone: three JVMs start
@pytest.mark.skipif(sys.platform != "linux", reason="processes are bound to cores on Linux only")
def test_each_worker_keeps_to_a_core_of_its_own(tmp_path: Path) -> None:
    cores = sorted(os.sched_getaffinity(0))
    with standalone_cluster(tmp_path, 2, "1g", bind_to_cores=True) as cluster:
        bound = [_cores_of_all_threads(pid) for pid in cluster.pids]
        ours = os.sched_getaffinity(0)
    assert bound == [{cores[0]}, {cores[1 % len(cores)]}]
    assert ours == set(cores)


def test_a_process_and_what_it_starts_is_held_to_its_share() -> None:
    try:
        with control_group(0.5) as group:
            processes = list(_held(group))
    except PrerequisiteError as error:
        pytest.skip(str(error))
    assert len(processes) == 2
    assert not group.parent.exists()


def _held(group: Path) -> Iterator[int]:
    """Start a shell that starts another program; give what the group holds while both live."""
    command = ["sh", "-c", "sleep 60 & echo started; wait"]
    with subprocess.Popen(inside(group, command), stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None
        assert shell.stdout.readline() == b"started\n"
        held = [int(line) for line in group.read_text().split()]
        yield from held
        for pid in held:
            os.kill(pid, signal.SIGKILL)


def _cores_of_all_threads(pid: int) -> set[int]:
    threads = (int(thread.name) for thread in Path(f"/proc/{pid}/task").iterdir())
    return set().union(*map(os.sched_getaffinity, threads))
