"""Takes from a consumer what is there, without waiting for more."""

from __future__ import annotations

from typing import Final

from confluent_kafka import Consumer, Message

MESSAGES_MAX: Final = 1_000


def polled(consumer: Consumer, wait_s: float, messages_max: int = MESSAGES_MAX) -> list[Message]:
    """Return what a consumer has now, or what comes first within a time."""
    first = consumer.poll(wait_s)
    # consume() alone waits for its whole timeout unless it gets as many records as it asked for: a
    # second for each look-up near a partition's end.
    return [] if first is None else [first, *consumer.consume(messages_max, 0.0)]
