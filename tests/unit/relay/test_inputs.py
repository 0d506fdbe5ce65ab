"""What a relay's consumer gives is sorted out."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from checkback.protocol.errors import BrokerError
from checkback.relay.inputs import Inputs, Read, read_of
from checkback.sinks.records.source_record import is_unreadable


@dataclass
class Message:
    at: int
    code: int | None = None

    def error(self) -> KafkaError | None:
        return None if self.code is None else KafkaError(self.code)

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return self.at

    def headers(self) -> list[object]:
        return []

    def key(self) -> None:
        return None

    value = timestamp = key


def test_messages_are_records_ends_or_what_can_t_be_unpacked() -> None:
    record: Any = Message(0)
    assert read_of(record) == Read("t", 3, 0, record)
    assert read_of(Message(2, KafkaError._PARTITION_EOF)) == Read("t", 3, 2, None)  # type: ignore[arg-type]
    packed = read_of(Message(1, KafkaError._BAD_COMPRESSION))  # type: ignore[arg-type]
    assert packed is not None
    assert packed.record is not None
    assert (packed.offset, is_unreadable(packed.record)) == (1, True)
    assert read_of(Message(0, KafkaError._BAD_COMPRESSION)) is not None  # type: ignore[arg-type]


@pytest.mark.parametrize("code", [KafkaError._TRANSPORT, KafkaError._MAX_POLL_EXCEEDED])
def test_an_error_that_passes_is_no_record(code: int) -> None:
    assert read_of(Message(-1, code)) is None  # type: ignore[arg-type]


def test_an_error_that_does_not_pass_is_raised() -> None:
    message: Any = Message(-1, KafkaError.TOPIC_AUTHORIZATION_FAILED)

    with pytest.raises(BrokerError, match="t-3"):
        read_of(message)


def test_in_a_batch_that_can_not_be_unpacked_each_look_goes_one_record_on() -> None:
    """librdkafka names the first record of the batch, wherever in it one seeks."""
    found, sought = [Message(5, KafkaError._BAD_COMPRESSION)], list[int]()
    consumer = SimpleNamespace(
        poll=lambda _: found[0],
        consume=lambda *_: [],
        seek=lambda place: sought.append(place.offset),
    )
    inputs: Any = object.__new__(Inputs)
    inputs._consumer, inputs._sought = consumer, {}
    for _ in range(3):
        inputs.poll(0.0)
    found[0] = Message(9, KafkaError._BAD_COMPRESSION)
    inputs.poll(0.0)

    assert sought == [6, 7, 8, 10]
