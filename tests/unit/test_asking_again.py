"""A state of the brokers that passes by itself ends nothing: they are asked again."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from checkback.sinks.kafka.cluster.transient_errors import (
    PASSING,
    PAUSE_S,
    is_transient,
    retry_transient,
    said_by,
)


class Brokers:
    """Answers with these codes, one after another, then with 7."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)
        self.pauses: list[float] = []

    def ask(self) -> int:
        if self.codes:
            raise KafkaException(KafkaError(self.codes.pop(0)))
        return 7

    def asked(self, retry_s: float = 60) -> int:
        return retry_transient(self.ask, retry_s, pause=self.pauses.append)


@pytest.mark.parametrize("code", sorted(PASSING))
def test_what_passes_is_asked_again(code: int) -> None:
    brokers = Brokers(code, code)

    assert brokers.asked() == 7
    assert brokers.pauses == [PAUSE_S] * 2


@pytest.mark.parametrize(
    ("code", "retry_s"),
    [(KafkaError.NOT_COORDINATOR, 0), (KafkaError.TOPIC_AUTHORIZATION_FAILED, 60)],
)
def test_what_does_not_pass_or_took_too_long_is_raised(code: int, retry_s: float) -> None:
    brokers = Brokers(code)

    with pytest.raises(KafkaException):
        brokers.asked(retry_s)
    assert brokers.pauses == []


def test_a_future_that_was_not_answered_says_so() -> None:
    assert not is_transient(TimeoutError())
    assert said_by(TimeoutError()) == "no answer in time"
    assert said_by(KafkaException(KafkaError(KafkaError._TIMED_OUT))) == "no answer in time"
    assert "coordinator" in said_by(KafkaException(KafkaError(KafkaError.NOT_COORDINATOR)))


@pytest.mark.parametrize("code", [KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN])
def test_brokers_that_are_away_are_told_in_plain_words(code: int) -> None:
    """It was "Failed to get metadata: Local: Broker transport failure"."""
    assert said_by(KafkaException(KafkaError(code))) == "there is no connection to the brokers"
