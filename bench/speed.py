"""Measures the machine's speed during a run, by a fixed piece of work.

The speed of rented processors changes by half within minutes. Two runs are comparable only if the
machine had the same speed; this shows whether it had.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import ClassVar, Final

from checkback.bench.sampler import Sampler

ADDITIONS: Final = 20_000
"""About a millisecond of work, a five-hundredth of a core."""
LOOP: Final = """
import time
started_s, total = time.perf_counter(), 0
for number in range(10_000_000):
    total += number
print(time.perf_counter() - started_s)
"""


def work_us() -> float:
    """Do the fixed work; return its processor time in microseconds, without waiting."""
    started_ns = time.thread_time_ns()
    total = 0
    for number in range(ADDITIONS):
        total += number
    return (time.thread_time_ns() - started_ns) / 1_000


def work_of_two(repetitions: int = 5) -> float:
    """Return how many times the work of one process two processes do at once.

    Two rented cores are often two threads of one core. Then the result is far below 2, and no other
    program can gain more from the second one.
    """
    found = []
    for _ in range(repetitions):
        alone_s, together_s = _slowest_loop_s(1), _slowest_loop_s(2)
        found.append(2 * alone_s / together_s)
    return round(statistics.median(found), 2)


def _slowest_loop_s(processes: int) -> float:
    command = [sys.executable, "-c", LOOP]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(processes)]
    return max(float(process.communicate()[0]) for process in running)


@dataclass(slots=True)
class SpeedWatch(Sampler):
    """Does the fixed work twice a second in a thread; a context manager."""

    every_s: ClassVar[float] = 0.5

    samples: list[tuple[float, float]] = field(default_factory=list)

    def look(self) -> None:
        """Take a sample now."""
        self.samples.append((time.time() * 1_000, work_us()))

    def work_us_between(self, from_ms: float, to_ms: float) -> float:
        """Return the median time of the fixed work in a span of time; 0 without samples."""
        found = [took_us for at_ms, took_us in self.samples if from_ms <= at_ms <= to_ms]
        return round(statistics.median(found), 1) if found else 0.0
