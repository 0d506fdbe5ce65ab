"""Memory options for the JVMs of driver and executors."""

from __future__ import annotations

import re
from typing import Final

_MEMORY: Final = re.compile(r"(\d+)([kmgt]?)b?", re.IGNORECASE)

COLLECTOR: Final = (
    # G1 treats data fetched from Kafka, megabytes at once, as humongous objects and collects them
    # concurrently with the tasks, which need the cores: that takes 7 us of processor time per
    # transaction instead of 2.
    "-XX:+UseParallelGC",
    # Polled records live for a second. By default the young generation is a third of the heap and
    # fills up faster than that: records moved to the old generation, which then was collected every
    # few batches.
    "-XX:NewRatio=1",
    # Only Linux has this option; it helps where the system lets processes choose (madvise).
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:+UseTransparentHugePages",
)


def java_options(memory: str) -> str:
    """Return the options of a JVM that takes its whole heap at its start.

    Args:
        memory: the heap's size as Spark writes it: "2g", "512m", or MiB without a unit. If it is
            unknown or can't be parsed, the heap grows as it is used.
    """
    found = _MEMORY.fullmatch(memory.strip())
    heap = () if found is None else (f"-Xms{found[1]}{(found[2] or 'm').lower()}",)
    return " ".join((*COLLECTOR, *heap))
