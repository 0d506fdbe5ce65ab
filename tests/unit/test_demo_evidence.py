"""The demo's evidence is read from the records about orders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest
from confluent_kafka import Message

from checkback.demo import audit
from checkback.demo.audit import SeenRecord
from checkback.protocol.records import Op, half_headers
from checkback.protocol.topics import TopicNames

TOPICS = TopicNames()
make_message: Any = Message  # the stubs have no constructor


def half(order_id: str) -> Message:
    headers = half_headers(
        producer_group="g", transaction_id=f"id-{order_id}", real_topic="paid", properties={}
    )
    return cast(
        "Message", make_message(TOPICS.half, key=order_id.encode(), value=b"body", headers=headers)
    )


def op(order_id: str, *, answers_check: bool) -> Message:
    one = Op(0, 0, "g", f"id-{order_id}", 8, from_transaction_check=answers_check)
    return cast(
        "Message", make_message(TOPICS.op, key=one.key(), value=one.value(), headers=one.headers())
    )


def test_answers_to_checks_are_counted_by_order(monkeypatch: pytest.MonkeyPatch) -> None:
    ops = [op("a", answers_check=True)] * 2 + [op("b", answers_check=False)]
    stored = {TOPICS.half: [half("a"), half("b")], TOPICS.op: ops}

    def read(connection: Mapping[str, object], topic: str) -> list[Message]:
        assert connection["bootstrap.servers"] == "kafka:9092"
        return stored.get(topic, [])

    monkeypatch.setattr(audit, "read_topic", read)
    found = audit.collect_evidence("kafka:9092", TOPICS, ["g"])

    assert found.check_answers == {"a": 2}
    assert found.halves[0] == SeenRecord("RMQ_SYS_TRANS_HALF_TOPIC", "a", b"body", "")
    assert found.finals == []
