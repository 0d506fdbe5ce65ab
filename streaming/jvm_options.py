"""What the JVMs of driver and executors are told about their memory."""

from __future__ import annotations

import re
from typing import Final

_MEMORY: Final = re.compile(r"(\d+)([kmgt]?)b?", re.IGNORECASE)

COLLECTOR: Final = (
    # G1 takes what was fetched from Kafka, megabytes at once, for humongous objects and collects
    # beside the tasks, which need the cores: 7 us of processor time per transaction instead of 2.
    "-XX:+UseParallelGC",
    # What was polled lives for a second, longer than it takes to fill the third of the heap that
    # the young have by default: it grew old, and each few batches the old ones were collected.
    "-XX:NewRatio=1",
    # Known on Linux alone, of use where the system lets processes choose (madvise).
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:+UseTransparentHugePages",
)


def java_options(memory: str) -> str:
    """Return the options of a JVM with so much heap, of which it has all from the start.

    Args:
        memory: as Spark writes it: "2g", "512m", without a unit MiB. Where it is not known or can't
            be read, the heap grows as it is used.
    """
    found = _MEMORY.fullmatch(memory.strip())
    heap = () if found is None else (f"-Xms{found[1]}{(found[2] or 'm').lower()}",)
    return " ".join((*COLLECTOR, *heap))
