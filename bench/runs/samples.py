"""Samples taken at an interval: processor time, memory, the machine's speed.

Processor time and memory come from Linux's /proc. Without it nothing is counted, and results that
need it are left out.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final, NamedTuple, Self

PROC: Final = Path("/proc")
MIB: Final = 1024 * 1024
KINDS: Final = ("driver", "jvm", "python_worker", "sink", "broker")
PYTHON_KINDS: Final = ("python_worker", "sink")
ADDITIONS: Final = 20_000
"""The fixed work that shows the machine's speed: about a millisecond, a five-hundredth of a
core."""


@contextmanager
def sampling(look: Callable[[], None], every_s: float, name: str) -> Iterator[None]:
    """Call a function every few seconds, in a thread with this name, until the block ends."""
    ending = threading.Event()

    def run() -> None:
        while not ending.wait(every_s):
            look()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


@dataclass
class Sampler(ABC):
    """Takes samples at an interval, in a thread; a context manager."""

    every_s: ClassVar[float] = 0.5

    _sampling: ExitStack = field(default_factory=ExitStack, init=False)

    @abstractmethod
    def look(self) -> None:
        """Take a sample now."""

    def __enter__(self) -> Self:
        self._sampling.enter_context(sampling(self.look, self.every_s, type(self).__name__))
        return self

    def __exit__(self, *_: object) -> None:
        self._sampling.close()


class SpeedWatch(Sampler):
    """Measures the machine's speed by a fixed piece of work.

    The speed of rented processors changes by half within minutes. Two runs are comparable only if
    the machine had the same speed; this shows whether it had.
    """

    def __init__(self) -> None:
        super().__init__()
        self.samples: list[tuple[float, float]] = []

    def look(self) -> None:
        """Take a sample now: the work's processor time, without waiting."""
        started_ns, total = time.thread_time_ns(), 0
        for number in range(ADDITIONS):
            total += number
        took_us = (time.thread_time_ns() - started_ns) / 1_000
        self.samples.append((time.time() * 1_000, took_us))

    def work_us_between(self, from_ms: float, to_ms: float) -> float:
        """Return the median time of the fixed work in a span of time; 0 without samples."""
        found = [took_us for at_ms, took_us in self.samples if from_ms <= at_ms <= to_ms]
        return round(statistics.median(found), 1) if found else 0.0


class Process(NamedTuple):
    """One process at one moment; pid and start together identify it."""

    pid: int
    parent: int
    started_ticks: int
    cpu_s: float
    rss_bytes: int


class CpuSample(NamedTuple):
    """Seconds of processor time by kind used up to a moment, those of ended processes included."""

    time_ms: float
    cpu_s: Mapping[str, float]


class ProcessWatch(Sampler):
    """Samples processor time and memory of a tree of processes, by kind."""

    def __init__(self, roots: Sequence[int], others: Mapping[str, int] | None = None) -> None:
        super().__init__()
        self.roots = roots
        self.others = others or {}
        self.samples: list[CpuSample] = []
        self.rss_bytes: list[tuple[float, dict[str, int]]] = []
        self._seen: dict[tuple[int, int], tuple[str, float]] = {}

    def cpu_s_between(self, from_ms: float, to_ms: float) -> dict[str, float]:
        """Return the seconds of processor time by kind in a span of time."""
        before, after = self._cpu_s_until(from_ms), self._cpu_s_until(to_ms)
        return {kind: round(after[kind] - before.get(kind, 0.0), 3) for kind in after}

    def rss_mib_max(self, kind: str, from_ms: float = 0.0, to_ms: float = 1e18) -> float:
        """Return the largest memory of a process of a kind, in MiB; 0 if none was seen."""
        found = [largest.get(kind, 0) for at, largest in self.rss_bytes if from_ms <= at <= to_ms]
        return round(max(found, default=0) / MIB, 1)

    def python_mib_max(self, from_ms: float = 0.0, to_ms: float = 1e18) -> float:
        """Return the largest memory of a worker or sink process, in MiB."""
        return max(self.rss_mib_max(kind, from_ms, to_ms) for kind in PYTHON_KINDS)

    def look(self) -> None:
        """Take a sample now."""
        largest: dict[str, int] = defaultdict(int)
        for kind, process in self._found():
            # A worker is forked from a daemon and may change its name after the fork.
            self._seen[process.pid, process.started_ticks] = (kind, process.cpu_s)
            largest[kind] = max(largest[kind], process.rss_bytes)
        totals: dict[str, float] = defaultdict(float)
        for kind, cpu_s in self._seen.values():
            totals[kind] += cpu_s
        now_ms = time.time() * 1_000
        self.samples.append(CpuSample(now_ms, dict(totals)))
        self.rss_bytes.append((now_ms, dict(largest)))

    def _found(self) -> Iterator[tuple[str, Process]]:
        processes = {process.pid: process for process in all_processes()}
        # A sink process outlives the worker that started it, and then its parent changes.
        known = [
            pid
            for (pid, started_ticks), (kind, _) in self._seen.items()
            if kind not in self.others
            and pid in processes
            and processes[pid].started_ticks == started_ticks
        ]
        for pid in descendants(processes, [*self.roots, *known]):
            yield _kind(pid), processes[pid]
        for kind, pid in self.others.items():
            if pid in processes:
                yield kind, processes[pid]

    def _cpu_s_until(self, time_ms: float) -> dict[str, float]:
        at = bisect_left(self.samples, time_ms, key=lambda sample: sample.time_ms)
        if at == 0:
            return dict(self.samples[0].cpu_s) if self.samples else {}
        if at == len(self.samples):
            return dict(self.samples[-1].cpu_s)
        before, after = self.samples[at - 1], self.samples[at]
        share = (time_ms - before.time_ms) / (after.time_ms - before.time_ms)
        return {
            kind: before.cpu_s.get(kind, 0.0) + share * (cpu_s - before.cpu_s.get(kind, 0.0))
            for kind, cpu_s in after.cpu_s.items()
        }


def kind_of(command: str, name: str) -> str:
    """Return the kind of a pipeline's process, by its command line and its name (comm)."""
    if "checkback.sinks" in command or name.startswith("checkback-sink"):
        return "sink"
    if "pyspark.daemon" in command or "pyspark.worker" in command:
        return "python_worker"
    return "jvm" if "java" in command.split(" ")[0] else "driver"


def all_processes() -> Iterator[Process]:
    """Yield the processes of this machine; none without /proc."""
    if not PROC.is_dir():
        return
    for folder in PROC.iterdir():
        if folder.name.isdigit():
            try:
                yield _process(int(folder.name), (folder / "stat").read_text())
            except (OSError, ValueError, IndexError):
                continue  # the process has just ended


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


def _process(pid: int, stat: str) -> Process:
    # The name is in brackets and may contain anything, even brackets.
    parts = stat.rpartition(")")[2].split()
    cpu_s = (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")
    rss_bytes = int(parts[21]) * os.sysconf("SC_PAGE_SIZE")
    return Process(pid, int(parts[1]), int(parts[19]), cpu_s, rss_bytes)


def _kind(pid: int) -> str:
    try:
        command = (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ")
        name = (PROC / str(pid) / "comm").read_text("utf-8", "replace")
    except OSError:
        return "driver"
    return kind_of(command.decode("utf-8", "replace"), name)
