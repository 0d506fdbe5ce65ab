"""Which topics go the checked way for a while, because a transaction with them failed. Pure.

A transaction fails as a whole, and Kafka does not always say which topic is to blame. So all topics
of the transaction pause, the second longer than the first and so on, and are tried one by one. A
topic whose transaction succeeds no longer pauses. The guilty topic fails again, and its pause
doubles each time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

PAUSE_FIRST_S: Final = 1.0
PAUSE_MAX_S: Final = 300.0
STAGGER: Final = 0.5
"""Share of a pause by which the next topic pauses longer."""


class TopicPauses:
    """The pauses of one producer's topics."""

    def __init__(self) -> None:
        self._pauses: dict[str, tuple[float, float]] = {}

    def is_paused(self, topic: str, now_s: float) -> bool:
        """Tell whether messages for a topic go the checked way now."""
        known = self._pauses.get(topic) if self._pauses else None
        return known is not None and now_s < known[1]

    def failed(self, topics: Iterable[str], now_s: float) -> float:
        """Note a transaction that failed with these topics; return the longest pause in seconds."""
        longest_s = 0.0
        for number, topic in enumerate(sorted(topics)):
            last_s = self._pauses.get(topic, (0.0, 0.0))[0]
            pause_s = min(PAUSE_MAX_S, max(PAUSE_FIRST_S, last_s * 2))
            self._pauses[topic] = pause_s, now_s + pause_s * (1 + number * STAGGER)
            longest_s = max(longest_s, pause_s)
        return longest_s

    def delivered(self, topics: Iterable[str]) -> None:
        """Note that messages for these topics were delivered."""
        if self._pauses:
            for topic in topics:
                self._pauses.pop(topic, None)
