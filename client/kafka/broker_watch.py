"""What a producer notices of the brokers, and which of them to avoid for a while.

Tables and rule of the avoiding are those of RocketMQ 5 (C/latency/MQFaultStrategy.java); off by
default, as there.
"""

from __future__ import annotations

import re
import threading
import time
from dataclasses import dataclass
from typing import Any, Final

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


BROKER_NAME: Final = re.compile(r"/(\d+): ")
"""How librdkafka begins the text of a connection's error: ``host:port/1: Connect to ... failed``.

Only this text has the broker's number. A text without a number is about a bootstrap address.
"""


class BrokerWatch:
    """Keeps the fault table of a producer, from what librdkafka reports. Threads may share it.

    Its clock is the monotonic one, in milliseconds.
    """

    def __init__(self) -> None:
        self.faults = FaultTable()
        self._away: set[int] = set()

    def connection_failed(self, error: Any) -> None:
        """Note an error that librdkafka reports for a connection."""
        found = BROKER_NAME.search(error.str())
        if found is not None:
            broker = int(found[1])
            self._away.add(broker)
            self.faults.failed(broker, _now_ms(), reachable=False)

    def answered(self, broker: int, latency_ms: float) -> None:
        """Note that a broker stored a record."""
        self._away.discard(broker)
        self.faults.answered(broker, latency_ms, _now_ms())

    def silent(self, broker: int) -> None:
        """Note that a broker did not answer in time."""
        self.faults.failed(broker, _now_ms(), reachable=broker not in self._away)

    def all_there(self) -> bool:
        """Tell whether every known connection holds."""
        return not self._away

    def is_away(self, broker: int | None) -> bool:
        """Tell whether a broker's connection broke, and the broker stored nothing since."""
        return broker in self._away

    def is_left_alone(self, broker: int | None) -> bool:
        """Tell whether a broker is away, and so recently that senders avoid it."""
        return broker in self._away and not self.faults.available(broker, _now_ms())


def _now_ms() -> float:
    return time.monotonic() * 1000
