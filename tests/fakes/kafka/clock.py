"""The clock of the cluster and of whoever uses it: a number that is set."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Clock:
    """Wall clock and monotonic clock in one, the same for all processes.

    Args:
        now_ms: milliseconds since 1970.
    """

    now_ms: float = 1_700_000_000_000.0

    def advance_to(self, then_ms: float) -> None:
        """Let time pass until then; it never goes back."""
        self.now_ms = max(self.now_ms, then_ms)
