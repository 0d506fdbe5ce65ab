"""What a relay's consumers give is sorted out: records, ends of partitions, what can't be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import KafkaError

from checkback.protocol.errors import BrokerError
from checkback.relay.inputs import records_among


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


def test_records_ends_and_what_can_t_be_unpacked_go_their_ways() -> None:
    given = [
        Message(0), Message(1, KafkaError._BAD_COMPRESSION), Message(-1, KafkaError._TRANSPORT),
        Message(-1, KafkaError._MAX_POLL_EXCEEDED), Message(2, KafkaError._PARTITION_EOF),
    ]  # fmt: skip
    ends: list[tuple[int, int]] = []
    unreadable: list[object] = []
    found: list[Any] = [*records_among(given, lambda *end: ends.append(end), unreadable.append)]  # type: ignore[arg-type]

    assert (found, ends, unreadable) == ([given[0]], [(3, 2)], [given[1]])


def test_an_error_that_does_not_pass_is_raised() -> None:
    given = [Message(-1, KafkaError.TOPIC_AUTHORIZATION_FAILED)]

    with pytest.raises(BrokerError, match="t-3"):
        [*records_among(given, print, print)]  # type: ignore[arg-type]
