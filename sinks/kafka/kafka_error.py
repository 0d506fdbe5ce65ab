"""Finds librdkafka's error in what confluent-kafka raises."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException


def cause_of(error: KafkaException | SystemError) -> KafkaError:
    """Return the error code and text behind an exception.

    On a fatal error confluent-kafka leaves an exception pending while delivery reports still come
    in; Python then reports the callback as broken and chains the real cause to it.

    Raises:
        SystemError: it came from elsewhere.
    """
    inner: BaseException | None = error
    while isinstance(inner, SystemError):
        inner = inner.__cause__
    if not isinstance(inner, KafkaException) or not isinstance(inner.args[0], KafkaError):
        raise error
    return inner.args[0]
