"""Senders who set the latest time that there is, on topics as they are made and after a mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.integration.bad_records import set_topic_config
from tests.integration.running import COMMIT, Pipeline, Topics, wait_until

from checkback.protocol.records import Op, half_headers

LATEST_MS = 2**63 - 1


@pytest.fixture
def topics(bootstrap_servers: str, unique: str) -> Topics:
    return Topics(bootstrap_servers, unique)


def send_at_the_end_of_time(topics: Topics, body: bytes, real: str) -> list[str]:
    """Send a half and its commit with that time; return why the broker refused them, if it did."""
    producer = Producer({**topics.connection, "acks": "all"})
    stored: list[int] = []
    errors: list[str] = []

    def send(topic: str, value: bytes, headers: Any) -> None:
        def told(error: Any, message: Any) -> None:
            if error is None:
                stored.append(message.offset())
            else:
                errors.append(error.name())

        producer.produce(topic, value, None, 0, told, timestamp=LATEST_MS, headers=headers)
        producer.flush(30)

    made = half_headers(
        producer_group="g", transaction_id=body.decode(), real_topic=real, properties={}
    )
    send(topics.names.half, body, made)
    op = Op(0, stored[0] if stored else 0, "g", body.decode(), COMMIT)
    send(topics.names.op, op.value(), op.headers())
    return errors


def commit(topics: Topics, body: str, real: str) -> None:
    topics.send_op(topics.send_half(body.encode(), real), body, COMMIT)


def test_the_latest_time_that_there_is_harms_nobody(topics: Topics, tmp_path: Path) -> None:
    """On a topic that believes senders one such record ended the job, at every start again."""
    settings = topics.settings(tmp_path / "checkpoint")
    real = f"{topics.prefix}orders"
    topics.create(settings, [real], ["g"])

    with Pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started")
        as_made = send_at_the_end_of_time(topics, b"late", real)
        commit(topics, "before", real)
        wait_until(lambda: topics.bodies(real) == ["before", "late"], what="both finals")
        for name in (topics.names.half, topics.names.op):
            set_topic_config(topics.connection, name, message_timestamp_type="CreateTime")
        after_the_mistake = send_at_the_end_of_time(topics, b"poison", real)
        commit(topics, "after", real)
        wait_until(lambda: "after" in topics.bodies(real), what="the final after the mistake")
        assert pipeline.terminate() == 0, pipeline.errors()

    assert as_made == []
    assert after_the_mistake == ["INVALID_TIMESTAMP"] * 2
    assert topics.bodies(real) == ["after", "before", "late"]


def test_a_time_that_spark_can_not_read_is_named_with_its_record(
    topics: Topics, tmp_path: Path
) -> None:
    """It takes two mistakes: a topic that believes senders, and takes any time from them."""
    settings = topics.settings(tmp_path / "checkpoint")
    real = f"{topics.prefix}orders"
    topics.create(settings, [real], ["g"])
    any_time = {"message_timestamp_after_max_ms": str(LATEST_MS)}

    with Pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started")
        set_topic_config(
            topics.connection, topics.names.half, message_timestamp_type="CreateTime", **any_time
        )
        send_at_the_end_of_time(topics, b"poison", real)
        assert pipeline.wait(120) == 3
        (line,) = pipeline.errors().splitlines()

    assert f"The record at {topics.names.half}-0, offset 0, has a time" in line
