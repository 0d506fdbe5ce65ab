"""Measures how far the wall clock is ahead of the brokers', and ends a job if it is too far.

An age is this machine's time minus the brokers'. With a clock that is days ahead every pending half
is too old, and a commit that comes after the discard is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from checkback.protocol.durations import duration_text
from checkback.protocol.errors import BrokerError, OperationalError

AHEAD_MS_MAX: Final = 600_000
"""How far ahead of the brokers' clock this machine's may be."""
MEASURE_S: Final = 60.0
CREDIBLE_MS: Final = 1_000
"""By how much a batch's time may run ahead of the clock that only goes forward: NTP slews clocks
by half a millisecond in a second."""


@dataclass(slots=True)
class AheadWatch:
    """Measures how far this machine's clock is ahead of the brokers', and refuses too much.

    It asks the brokers at the start, every MEASURE_S, and if the times of batches run ahead of a
    clock that only goes forward; that clock may only have stood still with the machine.

    Args:
        brokers_ms: asks the brokers for their time; returns None where they do not tell it.
        steady_s: the clock that only goes forward.
    """

    brokers_ms: Callable[[], int | None]
    now_ms: Callable[[], int]
    steady_s: Callable[[], float] = time.monotonic
    _agreed_ms: float = field(default=float("-inf"), init=False)
    """The wall clock minus the steady one when the brokers last agreed."""
    _asked_s: float = field(default=float("-inf"), init=False)
    _range_ms: tuple[int, int] | None = field(default=None, init=False)
    """This clock is ahead by so much at least and at most; below 0 it is behind."""

    @property
    def ahead_ms(self) -> int:
        """How far this machine's clock is ahead of the brokers', at most; 0 if it is behind.

        A clock that is behind makes halves look younger, which only delays what is due.
        """
        return 0 if self._range_ms is None else max(0, self._range_ms[1])

    def compare_if_due(self) -> None:
        """Compare with the brokers again if the last time is MEASURE_S ago and they answer."""
        if self.steady_s() - self._asked_s >= MEASURE_S:
            with suppress(BrokerError):
                self.require_agreement()

    def require_agreement(self) -> None:
        """Compare the clock with the brokers'.

        Raises:
            OperationalError: this machine's clock is ahead of theirs.
            BrokerError: they do not answer.
        """
        before_ms, self._asked_s = self.now_ms(), self.steady_s()
        told_ms = self.brokers_ms()
        if told_ms is not None:
            self._take(before_ms - told_ms, self.now_ms() - told_ms)
        least_ms = 0 if self._range_ms is None else self._range_ms[0]
        if least_ms > AHEAD_MS_MAX:
            raise OperationalError(
                f"This machine's clock is {duration_text(least_ms)} ahead of the brokers'. "
                "Halves would look older than they are, and be given up too early.",
                remedy="Set the clocks by NTP: the next start continues from the checkpoint.",
                ahead_ms=least_ms,
            )
        self._agreed_ms = before_ms - self._asked_s * 1_000

    def require_credible(self, planned_ms: int) -> None:
        """Ask the brokers again if a batch was planned for a time that came too soon.

        Discards use the time of the batch before (streaming/batch/terms.py), so no discard used
        this time yet.
        """
        if planned_ms - self.steady_s() * 1_000 - self._agreed_ms > CREDIBLE_MS:
            self.require_agreement()

    def _take(self, least_ms: int, most_ms: int) -> None:
        """Add a measurement: the brokers stored a record between these two times.

        Slow answers leave much room between the two. So all measurements count together, until one
        contradicts those before it: then a clock was set.
        """
        least_known_ms, most_known_ms = self._range_ms or (least_ms, most_ms)
        least, most = max(least_known_ms, least_ms), min(most_known_ms, most_ms)
        self._range_ms = (least, most) if least <= most else (least_ms, most_ms)
