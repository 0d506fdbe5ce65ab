"""Tracks which check requests are done, so that no commit passes one that is not. Pure."""

from __future__ import annotations

import heapq


class CheckOffsets:
    """The offsets of one partition of a check topic, started in order and finished in any order."""

    def __init__(self) -> None:
        self._next: int | None = None
        self._open: set[int] = set()
        self._heap: list[int] = []

    def started(self, offset: int) -> None:
        """Note that an offset was started; gaps before it (compaction, aborts) are finished."""
        self._open.add(offset)
        heapq.heappush(self._heap, offset)
        self._next = offset + 1

    def finished(self, offset: int) -> None:
        """Note that an offset is finished; ignore one that was never started."""
        self._open.discard(offset)

    def committable(self) -> int | None:
        """Return the offset from which a restart continues, None where nothing was started."""
        while self._heap and self._heap[0] not in self._open:
            heapq.heappop(self._heap)
        return self._heap[0] if self._heap else self._next

    def __len__(self) -> int:
        return len(self._open)
