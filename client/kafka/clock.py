"""The brokers' time, as this process estimates it from a clock of its own."""

from __future__ import annotations

import time
from typing import Final

_BOOT_TIME: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)


def steady_ms() -> float:
    """Return the time of a clock that can't be set, and that goes on while a Linux machine sleeps.

    The time of day may be set: after a step of an hour every check request would look old, and none
    would be answered until the next half.
    """
    now_s = time.monotonic() if _BOOT_TIME is None else time.clock_gettime(_BOOT_TIME)
    return now_s * 1000


class BrokerClock:
    """Estimates how far the brokers' clock is from the caller's, by records with the brokers' time.

    The caller gives the time of a clock that is never set, always of the same one.

    RocketMQ computes ages by a client's own clock, and so asks needlessly, or never (#9640).
    """

    def __init__(self) -> None:
        self._ahead_ms: float | None = None

    def learn(self, appended_at_ms: float, now_ms: float) -> None:
        """Note when a broker says it appended a record whose answer arrived now."""
        self._ahead_ms = appended_at_ms - now_ms

    def now_ms(self, now_ms: float, time_of_day_ms: float) -> float:
        """Return the brokers' time now; before the first record, the caller's time of day."""
        return time_of_day_ms if self._ahead_ms is None else now_ms + self._ahead_ms

    def age_ms(self, appended_at_ms: float, now_ms: float) -> float:
        """Return how old a record is; zero before the first record.

        A request that seems too young is answered once too often; one that seems too old would
        never be answered.
        """
        if self._ahead_ms is None:
            return 0.0
        return now_ms + self._ahead_ms - appended_at_ms
