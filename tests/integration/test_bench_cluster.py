"""The cluster that `checkback bench scale` measures on."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from checkback.bench.cluster import standalone_cluster


@pytest.mark.skipif(sys.platform != "linux", reason="processes are bound to cores on Linux only")
def test_each_worker_keeps_to_a_core_of_its_own(tmp_path: Path) -> None:
    cores = sorted(os.sched_getaffinity(0))
    with standalone_cluster(tmp_path, 2, "1g", bind_to_cores=True) as cluster:
        bound = [_cores_of_all_threads(pid) for pid in cluster.pids]
        ours = os.sched_getaffinity(0)
    assert bound == [{cores[0]}, {cores[1 % len(cores)]}]
    assert ours == set(cores)


def _cores_of_all_threads(pid: int) -> set[int]:
    threads = (int(thread.name) for thread in Path(f"/proc/{pid}/task").iterdir())
    return set().union(*map(os.sched_getaffinity, threads))
