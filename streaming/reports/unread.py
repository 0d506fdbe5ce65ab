"""Tells what lies unread on the topics, by the brokers' ends and a clock, whatever the query says.

A query that stands still says nothing, or that all is read: its own progress knows the ends of its
last batch. So the driver's loop compares what was read with where the topics end now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from checkback.protocol.durations import duration_text
from checkback.sinks.kafka.read.list_offsets import Place

ENDS_KEPT_MAX: Final = 200
"""Ends that are kept of a partition that stands still; with fewer, records look too young."""


@dataclass(frozen=True, slots=True)
class Unread:
    """What is unread on a topic.

    Args:
        records: how many offsets readers of committed records could read and the pipeline has not.
        oldest_s: age of the oldest, from the first look that found it; 0 if all is read.
        still_s: for how long nothing was read of the partition where reading has stood longest.
    """

    topic: str
    records: int
    oldest_s: float = 0.0
    still_s: float = 0.0

    def says(self) -> str:
        """Return a part of a sentence, such as `12 unread on orders, the oldest for 5 s`."""
        oldest = duration_text(round(self.oldest_s) * 1_000)
        return f"{self.records:,} unread on {self.topic}, the oldest for {oldest}"


@dataclass(slots=True)
class UnreadHistory:
    """Tells from look to look since when what lies on the topics is unread. Pure."""

    _seen: dict[Place, list[tuple[int, float]]] = field(default_factory=dict)
    """By partition, the ends that looks found beyond what is read, and when."""
    _moved: dict[Place, tuple[int, float]] = field(default_factory=dict)

    def note(
        self, read: Mapping[Place, int], ends: Mapping[Place, int], now_s: float
    ) -> list[Unread]:
        """Take a look in; return what is unread of each topic of which that is known.

        Args:
            read: by partition, up to where it was read.
            ends: by partition, where it ends for a reader of committed records.
        """
        known = {place: end for place, end in ends.items() if place in read}
        for place, end in known.items():
            self._note(place, read[place], end, now_s)
        found: dict[str, Unread] = {}
        for place, end in sorted(known.items()):
            topic, had = place[0], found.get(place[0], Unread(place[0], 0))
            since_s = self._seen[place][0][1] if self._seen[place] else now_s
            found[topic] = Unread(
                topic,
                had.records + max(0, end - read[place]),
                max(had.oldest_s, now_s - since_s),
                max(had.still_s, now_s - max(since_s, self._moved[place][1])),
            )
        return list(found.values())

    def _note(self, place: Place, at: int, end: int, now_s: float) -> None:
        if self._moved.get(place, (-1, 0.0))[0] != at:
            self._moved[place] = at, now_s
        seen = [look for look in self._seen.get(place, ()) if look[0] > at]
        if end > (seen[-1][0] if seen else at):
            seen.append((end, now_s))
        if len(seen) > ENDS_KEPT_MAX:
            del seen[1:-1:2]
        self._seen[place] = seen
