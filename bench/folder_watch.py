"""Counts all bytes ever written to a folder whose files come and go."""

from __future__ import annotations

import time
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from checkback.bench.sampler import Sampler


@dataclass(slots=True)
class FolderWatch(Sampler):
    """Watches a folder: a thread lists it every two seconds; a context manager.

    A file counts with its largest size, even after its deletion; Spark keeps the files of a hundred
    batches before it deletes any. Names that begin with a dot do not count: they are Hadoop's
    checksums of local files, and unfinished files.

    Args:
        folder: need not exist yet.
    """

    every_s: ClassVar[float] = 2.0

    folder: Path
    samples: list[tuple[float, int]] = field(default_factory=list)
    _sizes: dict[str, int] = field(default_factory=dict)

    def __exit__(self, *_: object) -> None:
        Sampler.__exit__(
            self
        )  # dataclass(slots=True) creates the class twice, which breaks super()
        self.look()

    def bytes_between(self, from_ms: float, to_ms: float) -> int:
        """Return how many bytes were written in a span of time, by the samples around it."""
        return self._until(to_ms) - self._until(from_ms)

    def look(self) -> None:
        """Take a sample now."""
        for file in self.folder.rglob("*"):
            if file.name.startswith("."):
                continue
            try:
                size = file.stat().st_size if file.is_file() else 0
            except OSError:
                continue  # the file is already deleted
            path = str(file)
            self._sizes[path] = max(size, self._sizes.get(path, 0))
        self.samples.append((time.time() * 1_000, sum(self._sizes.values())))

    def _until(self, time_ms: float) -> int:
        at = bisect_right(self.samples, time_ms, key=lambda sample: sample[0])
        return self.samples[at - 1][1] if at else 0
