"""Tells what lies unread on the topics, by the brokers' ends and a clock, whatever the query says.

A query that stands still says nothing, or that all is read: its own progress knows the ends of its
last batch. So the driver's loop compares what was read with where the topics end now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from checkback.protocol.durations import duration_text
from checkback.sinks.kafka.read.list_offsets import Place

ENDS_KEPT_MAX: Final = 200
"""Of a partition that is not read for long; fewer make a record look younger than it is."""


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
        """Return it as words that follow others."""
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
        topics = dict.fromkeys(topic for topic, _ in sorted(known))
        return [_of_topic(topic, self._of(topic, known, read, now_s)) for topic in topics]

    def _note(self, place: Place, at: int, end: int, now_s: float) -> None:
        if self._moved.get(place, (-1, 0.0))[0] != at:
            self._moved[place] = at, now_s
        seen = [look for look in self._seen.get(place, ()) if look[0] > at]
        if end > (seen[-1][0] if seen else at):
            seen.append((end, now_s))
        if len(seen) > ENDS_KEPT_MAX:
            del seen[1:-1:2]
        self._seen[place] = seen

    def _of(
        self, topic: str, ends: Mapping[Place, int], read: Mapping[Place, int], now_s: float
    ) -> list[Unread]:
        found = []
        for place in (place for place in ends if place[0] == topic):
            since_s = self._seen[place][0][1] if self._seen[place] else now_s
            still_s = now_s - max(since_s, self._moved[place][1])
            left = max(0, ends[place] - read[place])
            found.append(Unread(topic, left, now_s - since_s, still_s))
        return found


def _of_topic(topic: str, parts: Iterable[Unread]) -> Unread:
    parts = list(parts)
    return Unread(
        topic,
        sum(part.records for part in parts),
        max(part.oldest_s for part in parts),
        max(part.still_s for part in parts),
    )
