"""Ends a job with a wall clock that runs ahead of the brokers'.

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

AHEAD_MS_MAX: Final = 600_000
"""How far ahead of the brokers' clock this machine's may be."""


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
