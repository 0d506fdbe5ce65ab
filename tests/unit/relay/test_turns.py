"""What the failure of a relay's transaction means."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from checkback.protocol.errors import FencedError
from checkback.relay.turns import (
    FENCES_S,
    PRODUCERS,
    TIMED_OUT_S,
    GroupFailedError,
    PartitionsLostError,
    Turns,
)
from checkback.sinks.kafka.transaction.errors import Rejection

FENCED = KafkaException(KafkaError(KafkaError._FENCED))


@pytest.fixture
def failure(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what a failure means at a time, of a transaction that was open for a while."""
    turns: Any = object.__new__(Turns)
    turns._fences_s = deque(maxlen=PRODUCERS)
    producer = SimpleNamespace(
        rejections=[
            Rejection("narrow", 0, KafkaError.MSG_SIZE_TOO_LARGE, "too large"),
            Rejection("away", 0, KafkaError._MSG_TIMED_OUT, "its broker is dead"),
            Rejection("healthy", 0, KafkaError.INVALID_TXN_STATE, "the transaction is over"),
            Rejection("healthy", 0, KafkaError._FENCED, "fenced"),
        ]
    )

    def at(now_s: float, error: Exception, open_s: float = 0.1) -> Exception:
        monkeypatch.setattr("checkback.relay.turns.time.monotonic", lambda: now_s)
        found: Exception = turns._failure(error, producer, open_s)
        return found

    return at


def test_a_relay_whose_producers_are_all_fenced_has_another_beside_it(failure: Any) -> None:
    """Two happen without: coordinators died in turn, and their successors fenced."""
    assert isinstance(failure(0.0, FENCED), GroupFailedError)
    assert isinstance(failure(10.0, FENCED), GroupFailedError)
    assert isinstance(failure(FENCES_S, FENCED), GroupFailedError)
    assert isinstance(failure(FENCES_S + 1, FENCED), FencedError)


def test_a_transaction_that_timed_out_is_no_sign_of_another_relay(failure: Any) -> None:
    for _ in range(3):
        assert isinstance(failure(0.0, FENCED, TIMED_OUT_S), GroupFailedError)


def test_a_topic_that_took_no_record_is_named_and_none_of_a_transaction_that_ended(
    failure: Any,
) -> None:
    found = failure(0.0, FENCED)
    assert isinstance(found, GroupFailedError)
    assert found.topics == {"narrow", "away"}


def test_an_old_generation_has_lost_its_partitions(failure: Any) -> None:
    old = KafkaException(KafkaError(KafkaError.ILLEGAL_GENERATION))
    assert isinstance(failure(0.0, old), PartitionsLostError)
    assert isinstance(failure(0.0, ValueError("no")), GroupFailedError)
