"""Processor time and memory by kind of process, from Linux's /proc.

Without /proc nothing is counted, and results that need it are left out.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

from checkback.bench.sampler import Sampler

PROC: Final = Path("/proc")
MIB: Final = 1024 * 1024

KINDS: Final = ("driver", "jvm", "python_worker", "sink", "broker")
PYTHON_KINDS: Final = ("python_worker", "sink")


@dataclass(frozen=True, slots=True)
class Process:
    """One process at one moment.

    Args:
        pid: its id.
        parent: its parent's id.
        started_ticks: when it started; together with the pid this identifies the process.
        cpu_s: processor time used so far, in seconds.
        rss_bytes: resident memory.
    """

    pid: int
    parent: int
    started_ticks: int
    cpu_s: float
    rss_bytes: int


def kind_of(command: str, name: str) -> str:
    """Return the kind of a pipeline's process.

    Args:
        command: its command line, words separated by spaces.
        name: the name that it gave itself (comm).
    """
    if "checkback.sinks" in command or name.startswith("checkback-sink"):
        return "sink"
    if "pyspark.daemon" in command or "pyspark.worker" in command:
        return "python_worker"
    return "jvm" if "java" in command.split(" ")[0] else "driver"


@dataclass(frozen=True, slots=True)
class Sample:
    """Processor time used up to a moment.

    Args:
        time_ms: milliseconds since 1970.
        cpu_s: seconds by kind, including those of ended processes.
    """

    time_ms: float
    cpu_s: Mapping[str, float]


@dataclass(slots=True)
class Watch(Sampler):
    """Watches a tree of processes: a thread samples it twice a second; a context manager.

    Args:
        roots: processes to watch with their descendants.
        others: further processes to watch, by kind, without their descendants.
    """

    every_s: ClassVar[float] = 0.5

    roots: Sequence[int]
    others: Mapping[str, int] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    rss_bytes: list[tuple[float, dict[str, int]]] = field(default_factory=list)
    _seen: dict[tuple[int, int], tuple[str, float]] = field(default_factory=dict)

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
        for kind, one in self._found():
            key = (one.pid, one.started_ticks)
            # A worker is forked from a daemon and may change its name after the fork.
            self._seen[key] = (kind, one.cpu_s)
            largest[kind] = max(largest[kind], one.rss_bytes)
        totals: dict[str, float] = defaultdict(float)
        for kind, cpu_s in self._seen.values():
            totals[kind] += cpu_s
        now_ms = time.time() * 1_000
        self.samples.append(Sample(now_ms, dict(totals)))
        self.rss_bytes.append((now_ms, dict(largest)))

    def _found(self) -> Iterator[tuple[str, Process]]:
        processes = {one.pid: one for one in all_processes()}
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
    for one in processes.values():
        children[one.parent].append(one.pid)
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
    ticks = os.sysconf("SC_CLK_TCK")
    return Process(
        pid,
        int(parts[1]),
        int(parts[19]),
        (int(parts[11]) + int(parts[12])) / ticks,
        int(parts[21]) * os.sysconf("SC_PAGE_SIZE"),
    )


def _kind(pid: int) -> str:
    try:
        command = (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ")
        name = (PROC / str(pid) / "comm").read_text("utf-8", "replace")
    except OSError:
        return "driver"
    return kind_of(command.decode("utf-8", "replace"), name)
