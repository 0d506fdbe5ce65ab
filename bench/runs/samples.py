"""Samples of a running process, twice a second: processor time, memory, the machine's speed.

Processor time and memory come from Linux's /proc; without it nothing is counted.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Self

import numpy as np

PROC: Final = Path("/proc")
MIB: Final = 1024 * 1024
PYTHON_KINDS: Final = ("python_worker", "sink")
EVERY_S: Final = 0.5
ADDITIONS: Final = 20_000
"""The fixed work that shows the machine's speed: about a millisecond, a five-hundredth of a
core."""


@contextmanager
def sampling(take: Callable[[], None], every_s: float, name: str) -> Iterator[None]:
    """Call a function every few seconds, in a thread with this name, until the block ends."""
    ending = threading.Event()

    def run() -> None:
        while not ending.wait(every_s):
            take()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


class Process(NamedTuple):
    """One process at one moment; pid and start together identify it."""

    pid: int
    parent: int
    started_ticks: int
    cpu_s: float
    rss_bytes: int


class Sample(NamedTuple):
    """What was measured at one moment.

    Args:
        time_ms: the moment.
        cpu_s: seconds of processor time used until then by kind, ended processes included.
        rss_bytes: memory of the largest process of a kind.
        work_us: processor time of the fixed piece of work. The speed of rented processors changes
            by half within minutes; two runs are comparable only if the machine had the same speed.
    """

    time_ms: float
    cpu_s: Mapping[str, float]
    rss_bytes: Mapping[str, int]
    work_us: float


class ProcessWatch:
    """Samples a process and its descendants, and the broker; a context manager."""

    def __init__(self, root: int, broker: int | None = None) -> None:
        self.samples: list[Sample] = []
        self._root = root
        self._broker = broker
        self._seen: dict[tuple[int, int], tuple[str, float]] = {}
        self._sampling = ExitStack()

    def __enter__(self) -> Self:
        self._sampling.enter_context(sampling(self.sample, EVERY_S, "samples"))
        return self

    def __exit__(self, *_: object) -> None:
        self._sampling.close()

    def cpu_s_between(self, from_ms: float, to_ms: float) -> dict[str, float]:
        """Return the seconds of processor time by kind in a span of time."""
        times = [sample.time_ms for sample in self.samples]
        found = {}
        for kind in self.samples[-1].cpu_s if self.samples else ():
            used = [sample.cpu_s.get(kind, 0.0) for sample in self.samples]
            before, after = np.interp([from_ms, to_ms], times, used)
            found[kind] = round(float(after - before), 3)
        return found

    def rss_mib_max(self, kinds: Sequence[str], from_ms: float = 0.0, to_ms: float = 1e18) -> float:
        """Return the largest memory of a process of these kinds, in MiB; 0 if none was seen."""
        found = [
            sample.rss_bytes.get(kind, 0)
            for sample in self.samples
            for kind in kinds
            if from_ms <= sample.time_ms <= to_ms
        ]
        return round(max(found, default=0) / MIB, 1)

    def work_us_between(self, from_ms: float, to_ms: float) -> float:
        """Return the median time of the fixed work in a span of time; 0 without samples."""
        found = [sample.work_us for sample in self.samples if from_ms <= sample.time_ms <= to_ms]
        return round(statistics.median(found), 1) if found else 0.0

    def sample(self) -> None:
        """Take a sample now."""
        largest: dict[str, int] = defaultdict(int)
        for kind, process in self._found():
            # A worker is forked from a daemon and may change its name after the fork.
            self._seen[process.pid, process.started_ticks] = (kind, process.cpu_s)
            largest[kind] = max(largest[kind], process.rss_bytes)
        totals: dict[str, float] = defaultdict(float)
        for kind, cpu_s in self._seen.values():
            totals[kind] += cpu_s
        self.samples.append(Sample(time.time() * 1_000, totals, largest, _work_us()))

    def _found(self) -> Iterator[tuple[str, Process]]:
        processes = {process.pid: process for process in all_processes()}
        # A sink process outlives the worker that started it, and then its parent changes.
        known = [
            pid
            for (pid, started_ticks), (kind, _) in self._seen.items()
            if kind != "broker"
            and pid in processes
            and processes[pid].started_ticks == started_ticks
        ]
        for pid in descendants(processes, [self._root, *known]):
            yield _kind(pid), processes[pid]
        if self._broker in processes:
            yield "broker", processes[self._broker]


def _work_us() -> float:
    started_ns, total = time.thread_time_ns(), 0
    for number in range(ADDITIONS):
        total += number
    return (time.thread_time_ns() - started_ns) / 1_000


def kind_of(command: str, name: str) -> str:
    """Return the kind of a pipeline's process, by its command line and its name (comm)."""
    if "checkback.sinks" in command or name.startswith("checkback-sink"):
        return "sink"
    if "pyspark.daemon" in command or "pyspark.worker" in command:
        return "python_worker"
    return "jvm" if "java" in command.split(" ")[0] else "driver"


def all_processes() -> Iterator[Process]:
    """Yield the processes of this machine; none without /proc."""
    for file in PROC.glob("[0-9]*/stat"):
        try:
            # The name is in brackets and may contain anything, even brackets.
            parts = file.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # the process has just ended
        cpu_s = (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")
        rss_bytes = int(parts[21]) * os.sysconf("SC_PAGE_SIZE")
        yield Process(int(file.parent.name), int(parts[1]), int(parts[19]), cpu_s, rss_bytes)


def descendants(processes: Mapping[int, Process], roots: Sequence[int]) -> list[int]:
    """Return the given processes and their descendants, as far as they run."""
    children: dict[int, list[int]] = defaultdict(list)
    for process in processes.values():
        children[process.parent].append(process.pid)
    found: set[int] = set()
    waiting = [pid for pid in roots if pid in processes]
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children[pid]
    return sorted(found)


def _kind(pid: int) -> str:
    try:
        command = (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ")
        name = (PROC / str(pid) / "comm").read_text("utf-8", "replace")
    except OSError:
        return "driver"
    return kind_of(command.decode("utf-8", "replace"), name)
