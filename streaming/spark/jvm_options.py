"""Memory options for the JVMs of driver and executors."""

from __future__ import annotations

import re
from typing import Final

_MEMORY: Final = re.compile(r"(\d+)([kmgt]?)b?", re.IGNORECASE)

COLLECTOR: Final = (
    # G1 works concurrently with the tasks, which need the cores, and takes data fetched from Kafka,
    # megabytes at once, for humongous objects (docs/decisions/query.md#jvm).
    "-XX:+UseParallelGC",
    # Polled records and plans live for seconds: half of the heap is for them.
    "-XX:NewRatio=1",
    # Classes of a driver; with the default of 21 MB the whole heap is collected on the way there.
    "-XX:MetaspaceSize=256m",
    # Only Linux has this option; it helps where the system lets processes choose (madvise).
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:+UseTransparentHugePages",
)


YOUNG: Final = (
    # Left to itself the collector shrinks the survivor spaces to 14 MB of 2 GB. What does not fit
    # fills the old half, and that is collected in one pause (docs/decisions/query.md#jvm). Fixed
    # sizes take a heap that has all its memory from the start.
    "-XX:-UseAdaptiveSizePolicy",
    "-XX:SurvivorRatio=6",
    # What is still there after six collections, 40 s at 150 transactions a second, stays for long.
    "-XX:MaxTenuringThreshold=6",
)


def java_options(memory: str) -> str:
    """Return the options of a JVM that takes its whole heap at its start.

    Args:
        memory: the heap's size as Spark writes it: "2g", "512m", or MiB without a unit. If it is
            unknown or can't be parsed, the heap grows as it is used.
    """
    found = _MEMORY.fullmatch(memory.strip())
    heap = () if found is None else (f"-Xms{found[1]}{(found[2] or 'm').lower()}", *YOUNG)
    return " ".join((*COLLECTOR, *heap))
