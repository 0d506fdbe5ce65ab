"""What a process knows of its place in the consumer group that reads the check topic."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from kafka import ConsumerRebalanceListener
from kafka.structs import TopicPartition


class CheckGroup(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka has no types
    """Hears what the group gives and takes, and how long it has been giving nothing.

    kafka-python calls it in the thread in which its connections are served, where nothing may
    block: what was answered and is not committed yet is therefore answered again by the next owner.

    Args:
        forget: called with the partitions that are taken away.
    """

    def __init__(self, forget: Callable[[Iterable[TopicPartition]], None]) -> None:
        self._forget = forget
        self._joining_since_s: float | None = time.monotonic()

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Forget the partitions: a join has begun, after which anybody may own them."""
        self._joining_since_s = time.monotonic()
        self._forget(revoked)

    def on_partitions_assigned(self, _assigned: Iterable[TopicPartition]) -> None:
        """Note that the join is over: reading begins at the committed offsets."""
        self._joining_since_s = None

    def joining_for_ms(self, now_s: float) -> float:
        """Return how long the join under way has taken at a monotonic time, 0 when none is."""
        since_s = self._joining_since_s
        return 0.0 if since_s is None else (now_s - since_s) * 1000
