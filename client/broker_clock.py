"""The brokers' time, as far as this process knows it. Pure: the own clock is given."""

from __future__ import annotations


class BrokerClock:
    """Learns how far the brokers' clock is from the own one, from records that they time-stamped.

    Ages told by a client's own clock made RocketMQ ask needlessly, or never (#9640).
    """

    def __init__(self) -> None:
        self._ahead_ms: float | None = None

    def learn(self, appended_at_ms: float, now_ms: float) -> None:
        """Note when a broker says it appended a record whose answer arrived now."""
        self._ahead_ms = appended_at_ms - now_ms

    def now_ms(self, now_ms: float) -> float:
        """Return the brokers' time now, the own one as long as nothing was learnt."""
        return now_ms + (self._ahead_ms or 0.0)

    def age_ms(self, appended_at_ms: float, now_ms: float) -> float:
        """Return how old a record is; zero as long as nothing was learnt.

        A request that is taken for too young is answered once too often; one taken for too old
        would never be answered.
        """
        if self._ahead_ms is None:
            return 0.0
        return now_ms + self._ahead_ms - appended_at_ms
