"""What one producer notices of the brokers: how fast each answers, and whose connection broke."""

from __future__ import annotations

import re
import time
from typing import Any, Final

from checkback.client.fault_tolerance import FaultTable

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
