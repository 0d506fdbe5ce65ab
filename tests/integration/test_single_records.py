"""An operator's single records: stored once, and found where the command says."""

from __future__ import annotations

import time

from confluent_kafka import Message
from tests.integration.running import Topics

from checkback.operations.topics.append import append
from checkback.operations.topics.position import Position
from checkback.streaming.start.announce import produce_and_wait

BEFORE, LOG_APPEND_TIME, MINUTE_MS = [b"one", b"two"], 2, 60_000


def test_a_record_is_where_it_is_said_to_be(topics: Topics) -> None:
    real = f"{topics.prefix}noted"
    topics.create(topics.settings(), [real], [])
    connection = {"bootstrap.servers": topics.bootstrap_servers}

    places = [append(connection, real, 0, b"key", value, [("note", b"why")]) for value in BEFORE]
    kind, time_ms = produce_and_wait(connection, topics.names.feedback, b"").timestamp()

    found: list[Message] = topics.read(real)
    assert places == [Position(0, 0), Position(0, 1)]
    assert [(one.offset(), one.value()) for one in found] == list(enumerate(BEFORE))
    assert found[0].headers() == [("note", b"why")]
    assert kind == LOG_APPEND_TIME
    assert abs(time_ms - time.time() * 1_000) < MINUTE_MS
