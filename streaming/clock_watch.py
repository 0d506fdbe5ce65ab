"""Detects that the wall clock was set back; with a trigger interval Spark would then wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from checkback.protocol.durations import duration_text
from checkback.protocol.errors import OperationalError

TOLERATED_MS: Final = 10_000
"""The job waits out smaller steps. NTP slews small differences, without any step."""


@dataclass(slots=True)
class ClockWatch:
    """Compares the wall clock with a clock that only goes forward.

    Args:
        trigger_interval_ms: 0: Spark reads no clock between batches, so nothing is checked.
        now_ms: the wall clock.
        steady_s: the clock that only goes forward.
    """

    trigger_interval_ms: int
    now_ms: Callable[[], int]
    steady_s: Callable[[], float] = time.monotonic
    _most_ahead_ms: float = float("-inf")

    def require_no_step_back(self) -> None:
        """End the job if its next batch would have to wait for the clock to catch up.

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
                f"This machine's clock was set back by {duration_text(int(set_back_ms))}. Spark "
                "would make no batch until the clock has caught up.",
                remedy="Start the job again: it continues from the checkpoint at once.",
                set_back_ms=int(set_back_ms),
            )
