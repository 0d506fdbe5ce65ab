"""Initialises transactional producers without the first wait of librdkafka."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Final

from confluent_kafka import KafkaException, Producer

CONNECTED_WITHIN_S: Final = 1.0
INIT_LEAST_S: Final = 0.1


def initialise(producer: Producer, topic: str, timeout_s: float) -> None:
    """Have the brokers end what the transactional id left open, and give it its next epoch.

    `init_transactions` asks for the coordinator at once. If librdkafka has no connection yet, it
    asks again half a second later, which happened to 6 of 30 new producers on loopback. A request
    for a topic waits for a connection instead. Its answer tells the broker's name, and while
    librdkafka adopts that name, it can't use the connection (6 of 40 producers waited). After a
    second answer none of 80 waited.

    Args:
        producer: a new one, with a transactional id.
        topic: any that exists, since brokers may create one that they are asked for.
        timeout_s: how long the brokers may take; INIT_LEAST_S at least.

    Raises:
        KafkaException: they did not do it, or refuse it.
    """
    begun_s = time.monotonic()
    deadline_s = begun_s + timeout_s
    connected_by_s = begun_s + min(timeout_s, CONNECTED_WITHIN_S)
    with suppress(KafkaException):
        for _ in range(2):
            # librdkafka takes a negative time for one without end.
            producer.list_topics(topic, max(0.0, connected_by_s - time.monotonic()))
    producer.init_transactions(max(INIT_LEAST_S, deadline_s - time.monotonic()))
