"""Which brokers to avoid for a while: RocketMQ's MQFaultStrategy. Pure; the caller gives the clock.

Tables and rule are those of RocketMQ 5 (C/latency/MQFaultStrategy.java); off by default, as there.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

LATENCY_MAX_MS: Final = (50, 100, 550, 1_800, 3_000, 5_000, 15_000)
NOT_AVAILABLE_MS: Final = (0, 0, 2_000, 5_000, 6_000, 10_000, 30_000)
ISOLATION_LATENCY_MS: Final = 10_000
"""A failed send counts as a send that took this long."""


def not_available_for_ms(latency_ms: float) -> int:
    """Return how long to avoid a broker whose answer took this long."""
    for least, ban in zip(reversed(LATENCY_MAX_MS), reversed(NOT_AVAILABLE_MS), strict=True):
        if latency_ms >= least:
            return ban
    return 0


@dataclass(frozen=True, slots=True)
class FaultItem:
    """What is known of a broker.

    Args:
        available_at_ms: when it may be used again.
        reachable: whether it answered at all.
    """

    available_at_ms: float
    reachable: bool


class FaultTable:
    """Availability per leader broker. Threads may share it."""

    def __init__(self) -> None:
        self._faults: dict[int, FaultItem] = {}
        self._lock = threading.Lock()

    def answered(self, broker: int, latency_ms: float, now_ms: float) -> None:
        """Note an answer. A quick one does not shorten a ban that still runs (RocketMQ 5)."""
        ban = not_available_for_ms(latency_ms)
        with self._lock:
            known = self._faults.get(broker)
            until_ms = now_ms + ban if ban or known is None else known.available_at_ms
            self._faults[broker] = FaultItem(until_ms, reachable=True)

    def failed(self, broker: int, now_ms: float, *, reachable: bool) -> None:
        """Note a failure: the broker is isolated."""
        until_ms = now_ms + not_available_for_ms(ISOLATION_LATENCY_MS)
        with self._lock:
            self._faults[broker] = FaultItem(until_ms, reachable)

    def available(self, broker: int, now_ms: float) -> bool:
        """Tell whether a broker is not banned."""
        fault = self._faults.get(broker)
        return fault is None or now_ms >= fault.available_at_ms

    def reachable(self, broker: int) -> bool:
        """Tell whether a broker answered when it was last asked."""
        fault = self._faults.get(broker)
        return fault is None or fault.reachable

    def snapshot(self) -> dict[int, FaultItem]:
        """Return what is known, by broker."""
        with self._lock:
            return dict(self._faults)
