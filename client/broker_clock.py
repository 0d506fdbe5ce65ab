"""The brokers' time, as this process estimates it. Pure: the caller gives its own clock."""

from __future__ import annotations


class BrokerClock:
    """Estimates how far the brokers' clock is from the caller's, by records with the brokers' time.

    RocketMQ computed ages by a client's own clock, and so asked needlessly, or never (#9640).
    """

    def __init__(self) -> None:
        self._ahead_ms: float | None = None

    def learn(self, appended_at_ms: float, now_ms: float) -> None:
        """Note when a broker says it appended a record whose answer arrived now."""
        self._ahead_ms = appended_at_ms - now_ms

    def now_ms(self, now_ms: float) -> float:
        """Return the brokers' time now; before the first record, the caller's."""
        return now_ms + (self._ahead_ms or 0.0)

    def age_ms(self, appended_at_ms: float, now_ms: float) -> float:
        """Return how old a record is; zero before the first record.

        A request that is taken for too young is answered once too often; one taken for too old
        would never be answered.
        """
        if self._ahead_ms is None:
            return 0.0
        return now_ms + self._ahead_ms - appended_at_ms
