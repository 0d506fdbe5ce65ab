"""Detects that the wall clock was set back, so that Spark may wait, or that it ran ahead.

An age is this machine's time minus the brokers'. With a clock that is days ahead every pending half
is too old, and a commit that comes after the discard is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from checkback.protocol.durations import duration_text
from checkback.protocol.errors import OperationalError

TOLERATED_MS: Final = 10_000
"""The job waits out smaller steps. NTP slews small differences, without any step."""
AHEAD_MS_MAX: Final = 600_000
"""How far ahead of the brokers' clock this machine's may be."""


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


@dataclass(slots=True)
class AheadWatch:
    """Ends a job whose clock runs ahead of the brokers', before the job decides anything by it.

    It asks the brokers at the start, and again if the times of batches run ahead of a clock that
    only goes forward; that clock may only have stood still with the machine.

    Args:
        brokers_ms: asks the brokers for their time; returns None where they do not tell it.
        now_ms: the wall clock.
        steady_s: the clock that only goes forward.
    """

    brokers_ms: Callable[[], int | None]
    now_ms: Callable[[], int]
    steady_s: Callable[[], float] = time.monotonic
    _agreed_ms: float = field(default=float("-inf"), init=False)
    """The wall clock minus the steady one when the brokers last agreed."""

    def require_agreement(self) -> None:
        """Compare with the brokers.

        Raises:
            OperationalError: this machine's clock is ahead of theirs.
            BrokerError: they do not answer.
        """
        now_ms, steady_s = self.now_ms(), self.steady_s()
        told_ms = self.brokers_ms()
        ahead_ms = 0 if told_ms is None else now_ms - told_ms
        if ahead_ms > AHEAD_MS_MAX:
            raise OperationalError(
                f"This machine's clock is {duration_text(ahead_ms)} ahead of the brokers'. Halves "
                "would look older than they are, and be given up too early.",
                remedy="Set the clocks by NTP: the next start continues from the checkpoint.",
                ahead_ms=ahead_ms,
            )
        self._agreed_ms = now_ms - steady_s * 1_000

    def require_credible(self, planned_ms: int) -> None:
        """Ask the brokers again if a batch was planned for a time that came too soon.

        Discards use the time of the batch before (streaming/read_until.py), so no discard used this
        time yet.

        Raises:
            OperationalError, BrokerError: as for `require_agreement`.
        """
        if planned_ms - self.steady_s() * 1_000 - self._agreed_ms > AHEAD_MS_MAX:
            self.require_agreement()
