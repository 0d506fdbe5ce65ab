"""Errors as librdkafka gives them to its callers."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError, KafkaException

NEVER_MS: Final = float("inf")


class HangingCall(Exception):  # noqa: N818 - not the caller's error: the call is still under way
    """A call of librdkafka's that does not come back; only `call_within` hears of it."""


def passing(code: int, text: str) -> KafkaException:
    """Return an error after which the same call may be made again."""
    return KafkaException(KafkaError(code, text, retriable=True))


def timed_out(call: str) -> KafkaException:
    """Return the error that a call got no answer in its time."""
    return passing(KafkaError._TIMED_OUT, f"{call}: no answer")


def fenced(text: str) -> KafkaError:
    """Return the error that ends a producer: another one has its transactional id."""
    return KafkaError(KafkaError._FENCED, text, fatal=True)


def wrong_state(text: str) -> KafkaException:
    """Return the error that a producer is not where the call could be made."""
    return KafkaException(KafkaError(KafkaError._STATE, text))


def to_abort(text: str) -> KafkaException:
    """Return the error that a transaction can only be aborted."""
    error = KafkaError(KafkaError._INCONSISTENT, text, txn_requires_abort=True)
    return KafkaException(error)
