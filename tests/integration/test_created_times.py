"""Senders who set the latest time that there is, on topics as they are made and after a mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from tests.deciding import plain_half
from tests.integration.bad_records import set_topic_config
from tests.integration.running import COMMIT, Topics, commit, deployed, wait_until
from tests.integration.shared_jvm import SharedJvm

from checkback.protocol.records import Op

LATEST_MS = 2**63 - 1


@pytest.fixture
def topics(bootstrap_servers: str, unique: str) -> Topics:
    return Topics(bootstrap_servers, unique)


class Stored(NamedTuple):
    """What became of a record: its offset and the broker's time for it, or why it was refused."""

    offset: int
    time_ms: int
    error: str


def produce_at_the_end_of_time(
    topics: Topics, topic: str, value: bytes, headers: Any = ()
) -> Stored:
    """Send a record with that time."""
    producer = Producer({**topics.connection, "acks": "all"})
    told: list[Stored] = []

    def take(error: Any, message: Any) -> None:
        if error is None:
            told.append(Stored(message.offset(), message.timestamp()[1], ""))
        else:
            told.append(Stored(0, LATEST_MS, error.name()))

    producer.produce(topic, value, None, 0, take, timestamp=LATEST_MS, headers=list(headers))
    producer.flush(30)
    (stored,) = told
    return stored


def send_at_the_end_of_time(topics: Topics, body: bytes, real: str) -> list[str]:
    """Send a half and its commit with that time; return why the broker refused them, if it did."""
    made = plain_half(body.decode(), real)
    half = produce_at_the_end_of_time(topics, topics.names.half, body, made)
    op = Op(0, half.offset, "g", body.decode(), COMMIT)
    sent = produce_at_the_end_of_time(topics, topics.names.op, op.value(), op.headers())
    return [one.error for one in (half, sent) if one.error]


def believe_senders(topics: Topics, topic: str, **config: str) -> Stored:
    """Make the mistake, and wait until the broker makes it too: it learns of it a little later.

    Return what became of the first record whose time it believed. Those before it are records of
    nobody's, which the pipeline refuses.
    """
    set_topic_config(topics.connection, topic, message_timestamp_type="CreateTime", **config)
    told: list[Stored] = []

    def is_believed() -> bool:
        told.append(produce_at_the_end_of_time(topics, topic, b"of nobody"))
        # Without further settings it believes the time, and refuses the record for it.
        return told[-1].time_ms == LATEST_MS and not (config and told[-1].error)

    wait_until(is_believed, what=f"a broker that believes senders on {topic}")
    return told[-1]


@pytest.mark.nightly  # tests/spark/test_session.py has the sentence
def test_the_latest_time_harms_nobody_until_two_mistakes_let_it_in(
    topics: Topics, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    """On a topic that believes senders one such record ended the job, at every start again.

    Brokers refuse it there now. Only with a second mistake, a topic that takes any time, Spark gets
    the record and can't read it; then the job names it.
    """
    settings, real = deployed(topics, tmp_path)

    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started")
        as_made = send_at_the_end_of_time(topics, b"late", real)
        commit(topics, real, "before")
        wait_until(lambda: topics.bodies(real) == ["before", "late"], what="both finals")
        for name in (topics.names.half, topics.names.op):
            believe_senders(topics, name)
        after_the_mistake = send_at_the_end_of_time(topics, b"poison", real)
        commit(topics, real, "after")
        wait_until(lambda: "after" in topics.bodies(real), what="the final after the mistake")
        assert pipeline.is_alive

        any_time = {"message_timestamp_after_max_ms": str(LATEST_MS)}
        poison = believe_senders(topics, topics.names.half, **any_time)
        assert pipeline.wait(120) == 3
        (line,) = pipeline.errors().splitlines()

    assert as_made == []
    assert after_the_mistake == ["INVALID_TIMESTAMP"] * 2
    assert topics.bodies(real) == ["after", "before", "late"]
    assert f"The record at {topics.names.half}-0, offset {poison.offset}, has a time" in line
