"""The time that all tries of one send share. Pure: the caller gives the clock."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """A span of time on a monotonic clock.

    Args:
        started_ms: when it began.
        timeout_ms: how long it lasts.
        tries_max: how many tries may begin in it.
    """

    started_ms: float
    timeout_ms: float
    tries_max: int

    def remaining_ms(self, now_ms: float) -> float:
        """Return what is left, never less than zero."""
        return max(0.0, self.started_ms + self.timeout_ms - now_ms)

    def allows(self, tries_begun: int, now_ms: float) -> bool:
        """Tell whether another try may begin."""
        return tries_begun < self.tries_max and self.remaining_ms(now_ms) > 0
