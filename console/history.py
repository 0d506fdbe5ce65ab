"""Snapshots of the last hour, and the thread that takes them."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from checkback.console.plots import SECONDS, Plot, Point, plot
from checkback.console.snapshot import Snapshot, SnapshotReader
from checkback.protocol.durations import duration_text

INTERVAL_S: Final = 2.0
KEPT: Final = 1_800
DRAWN_MAX: Final = 240
"""Points of a plot, which is 320 units wide; more would only be sent."""
RATES: Final = {
    "prepared": "Half messages",
    "committed": "Committed",
    "rolled_back": "Rolled back",
    "checked": "Asked back",
}

log = logging.getLogger(__name__)


@dataclass(slots=True)
class History:
    """The latest snapshots, oldest first. One thread adds, others read."""

    _kept: deque[Snapshot] = field(default_factory=lambda: deque(maxlen=KEPT))
    taken: int = 0

    def add(self, snapshot: Snapshot) -> None:
        """Add the newest."""
        self._kept.append(snapshot)
        self.taken += 1

    @property
    def latest(self) -> Snapshot | None:
        """The newest, None before the first."""
        kept = self.snapshots()
        return kept[-1] if kept else None

    def snapshots(self) -> list[Snapshot]:
        """Return them, oldest first."""
        return list(self._kept)

    def plots(self) -> list[Plot]:
        """Return the overview's plots."""
        kept = self.snapshots()
        step = -(-len(kept) // DRAWN_MAX)
        if step > 1:
            # By their numbers, so that the same ones are drawn again when a new one has come.
            first = self.taken - len(kept)
            kept = [one for number, one in enumerate(kept[:-1], first) if not number % step]
            kept.append(self.snapshots()[-1])
        span = duration_text(kept[-1].time_ms - kept[0].time_ms) if kept else "0s"
        pending: list[Point] = [(one.time_ms, one.pending) for one in kept]
        oldest: list[Point] = [(one.time_ms, _seconds(one)) for one in kept]
        rates = [plot(title, "/s", rates_of(kept, event), span) for event, title in RATES.items()]
        batches = plot("Batch time", "ms", batch_times_ms(kept), span)
        return [
            plot("Pending", "", pending, span), plot("Oldest pending", SECONDS, oldest, span),
            *rates, batches,
        ]  # fmt: skip


def rates_of(kept: Sequence[Snapshot], event: str) -> list[Point]:
    """Return how often an event happened per second, between each two snapshots."""
    points: list[Point] = []
    for before, after in pairwise(kept):
        had, has = before.totals.get(event, 0.0), after.totals.get(event, 0.0)
        seconds = (after.time_ms - before.time_ms) / 1_000
        # A pipeline that was started again counts from zero.
        is_known = event in before.totals and event in after.totals and has >= had
        points.append((after.time_ms, (has - had) / seconds if is_known and seconds > 0 else None))
    return points


def batch_times_ms(kept: Sequence[Snapshot]) -> list[Point]:
    """Return how long the batches between each two snapshots took on average.

    Where no batch ended, the value before it stays.
    """
    points: list[Point] = []
    latest: float | None = None
    for before, after in pairwise(kept):
        if before.batch_s is None or after.batch_s is None:
            latest = None
        else:
            took_s, batches = (b - a for a, b in zip(before.batch_s, after.batch_s, strict=True))
            if batches > 0 and took_s >= 0:
                latest = took_s / batches * 1_000
        points.append((after.time_ms, latest))
    return points


class FigureSampler:
    """Takes a snapshot every INTERVAL_S in a thread of its own.

    Args:
        reader: reads snapshots.
        history: takes them.
        interval_s: time between two.
    """

    def __init__(
        self, reader: SnapshotReader, history: History, interval_s: float = INTERVAL_S
    ) -> None:
        self._reader, self._history, self._interval_s = reader, history, interval_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, once the snapshot that is being read is there."""
        self._stopping.set()
        self._thread.join(timeout=self._interval_s + 5)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._history.add(self._reader.read())
            except Exception:
                # The pages go on with the last snapshot; the next one may succeed.
                log.exception("No snapshot could be read")
            self._stopping.wait(self._interval_s)


def _seconds(one: Snapshot) -> float | None:
    if one.pending is None:
        return None
    return 0.0 if one.oldest_age_ms is None else one.oldest_age_ms / 1_000
