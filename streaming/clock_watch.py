"""Tells that the wall clock was set back: with a trigger interval Spark then waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from checkback.protocol.errors import OperationalError

TOLERATED_MS: Final = 10_000
"""Steps that are waited for; NTP slews smaller ones, and shows none at all."""


@dataclass(slots=True)
class ClockWatch:
    """Compares the wall clock with one that only goes forward.

    Args:
        trigger_interval_ms: 0: Spark looks at no clock between batches, so nothing has to be told.
        now_ms: the wall clock.
        steady_s: the other one.
    """

    trigger_interval_ms: int
    now_ms: Callable[[], int]
    steady_s: Callable[[], float] = time.monotonic
    _most_ahead_ms: float = float("-inf")

    def require_no_step_back(self) -> None:
        """End the job when its next batch would have to wait for the clock to catch up.

        Spark waits for the next multiple of the interval (ProcessingTimeExecutor, SystemClock in
        4.2.0), so after a step back by an hour it makes no batch for an hour.

        Raises:
            OperationalError: the clock was set back by more than 10 s since the job started.
        """
        ahead_ms = self.now_ms() - self.steady_s() * 1_000
        self._most_ahead_ms = max(self._most_ahead_ms, ahead_ms)
        set_back_ms = self._most_ahead_ms - ahead_ms
        if self.trigger_interval_ms and set_back_ms > TOLERATED_MS:
            raise OperationalError(
                f"This machine's clock was set back by {set_back_ms / 1_000:.0f} s, and Spark "
                "would make no batch until it is there again.",
                remedy="Start again: the next start goes on at once, from the checkpoint.",
                set_back_ms=int(set_back_ms),
            )
