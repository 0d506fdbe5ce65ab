"""Which brokers a producer avoids for a while.

It always avoids a broker whose connection broke. With send_latency_fault_enable, off by default, it
also avoids slow and failing brokers by RocketMQ 5's tables (C/latency/MQFaultStrategy.java).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
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


BROKER_NAME: Final = re.compile(r"/(\d+): ")
"""How librdkafka begins the text of a connection's error: ``host:port/1: Connect to ... failed``.

Only this text has the broker's number. A text without a number is about a bootstrap address.
"""


class BrokerWatch:
    """Availability per leader broker, from what librdkafka reports. Threads may share it.

    Args:
        now_ms: a clock in milliseconds that is never set.
    """

    def __init__(self, now_ms: Callable[[], float] = lambda: time.monotonic() * 1000) -> None:
        self._now_ms = now_ms
        self._away: set[int | None] = set()
        self._available_at_ms: dict[int | None, float] = {}

    def connection_failed(self, error: Any) -> None:
        """Note an error that librdkafka reports for a connection."""
        found = BROKER_NAME.search(error.str())
        if found is not None:
            broker = int(found[1])
            self._away.add(broker)
            self.silent(broker)

    def answered(self, broker: int | None, latency_ms: float) -> None:
        """Note that a broker stored a record; None: it is not known which.

        A quick answer does not shorten a ban that still runs (RocketMQ 5).
        """
        self._away.discard(broker)
        ban_ms = not_available_for_ms(latency_ms)
        if ban_ms and broker is not None:
            self._available_at_ms[broker] = self._now_ms() + ban_ms

    def silent(self, broker: int | None) -> None:
        """Note that a broker did not answer in time; None: it is not known which."""
        if broker is not None:
            ban_ms = not_available_for_ms(ISOLATION_LATENCY_MS)
            self._available_at_ms[broker] = self._now_ms() + ban_ms

    def all_there(self) -> bool:
        """Tell whether every known connection holds."""
        return not self._away

    def is_available(self, broker: int | None) -> bool:
        """Tell whether a broker is not banned."""
        return self._now_ms() >= self._available_at_ms.get(broker, 0)

    def is_away(self, broker: int | None) -> bool:
        """Tell whether a broker's connection broke, and the broker stored nothing since."""
        return broker in self._away

    def is_avoided(self, broker: int | None) -> bool:
        """Tell whether a broker is away, and so recently that senders avoid it."""
        return broker in self._away and not self.is_available(broker)
