"""One producer group that floods, and another one that wants its messages in time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.integration.running import COMMIT, Pipeline, Topics, wait_until
from tests.integration.shared_jvm import SharedJvm

from checkback.protocol.configuration import NEW_PAGE_SIZE
from checkback.protocol.records import Op, undelivered_check_headers
from checkback.streaming.batch.terms import PAGES_AHEAD

PAGES = 60_000
VISIBLE_WITHIN_S = 45
"""A call for each of 30,000 pages took 28 s on two cores with nothing else to do."""
HALF_PARTITIONS = STATE_PARTITIONS = 2


@pytest.fixture
def topics(bootstrap_servers: str, unique: str) -> Topics:
    return Topics(bootstrap_servers, unique, half_partitions=HALF_PARTITIONS)


def flood(topics: Topics, page_size: int = NEW_PAGE_SIZE) -> None:
    """Write ops of halves that nobody wrote, each in another page."""
    producer = Producer({**topics.connection, "linger.ms": 20})
    for number in range(PAGES):
        partition, page = number % HALF_PARTITIONS, number // HALF_PARTITIONS + 1
        op = Op(partition, page * page_size, "loud", f"none-{number}", COMMIT)
        headers: Any = op.headers()
        producer.produce(topics.names.op, op.value(), op.key(), partition, headers=headers)
        producer.poll(0)
    producer.flush(60)


def flood_feedback(topics: Topics) -> None:
    """Write feedback on checks of halves that nobody wrote, each in another page."""
    producer = Producer({**topics.connection, "linger.ms": 20})
    headers: Any = undelivered_check_headers(1)
    for number in range(PAGES):
        partition, page = number % HALF_PARTITIONS, number // HALF_PARTITIONS + 1
        value = str(page * NEW_PAGE_SIZE)
        producer.produce(topics.names.feedback, value, None, partition, headers=headers)
        producer.poll(0)
    producer.flush(60)


def lengthen(topics: Topics, offsets: int) -> None:
    """Have each half partition begin with offsets of records that nobody reads."""
    settings = {"transactional.id": f"{topics.prefix}filler", "linger.ms": 20}
    producer = Producer({**topics.connection, **settings})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(offsets * HALF_PARTITIONS):
        producer.produce(topics.names.half, b"", partition=number % HALF_PARTITIONS)
        producer.poll(0)
    producer.flush(60)
    producer.abort_transaction(30)


def finals(
    topics: Topics, pipeline: Pipeline, write: Callable[[], None], *, is_refused: bool = True
) -> None:
    """Let somebody write a flood, and see that a healthy final is visible in time."""
    real = f"{topics.prefix}orders"
    topics.send_op(topics.send_half(b"before", real), "before", COMMIT)
    wait_until(lambda: topics.bodies(real) == ["before"], what="the first final")
    write()
    sent_s = time.monotonic()
    topics.send_op(topics.send_half(b"healthy", real), "healthy", COMMIT)
    wait_until(lambda: "healthy" in topics.bodies(real), VISIBLE_WITHIN_S, "the healthy final")
    print(f"the healthy final was visible after {time.monotonic() - sent_s:.1f} s")
    if is_refused:
        wait_until(lambda: pipeline.wait_for("progress")["refused"], what="a line that tells")
    assert pipeline.terminate() == 0, pipeline.errors()


@pytest.mark.nightly  # tests/spark/test_decode_reference.py holds the rule, on few records
@pytest.mark.timeout(300)
def test_ops_of_halves_that_nobody_wrote_hold_nobody_up(
    topics: Topics, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    settings = topics.settings(tmp_path / "checkpoint")
    topics.create(settings, [f"{topics.prefix}orders"], ["g", "loud"])

    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        finals(topics, pipeline, lambda: flood(topics))
        lines = [line for line in pipeline.drain() if line["event"] == "progress"]

    refused = sum(line["refused"].get("OP_WITHOUT_HALF", 0) for line in lines)
    assert PAGES - HALF_PARTITIONS * PAGES_AHEAD <= refused < PAGES
    assert max(line["refused_groups"].get("loud", 0) for line in lines) > 0
    assert topics.reasons() == ["OP_WITHOUT_HALF"] * refused


@pytest.mark.nightly  # tests/spark/test_decode_reference.py holds the rule, on few records
@pytest.mark.timeout(300)
def test_ops_of_halves_of_which_nothing_is_remembered_hold_nobody_up(
    topics: Topics, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    small = 64
    settings = replace(topics.settings(tmp_path / "checkpoint"), page_size=small)
    topics.create(settings, [f"{topics.prefix}orders"], ["g", "loud"])
    lengthen(topics, (PAGES // HALF_PARTITIONS + 1) * small)

    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        finals(topics, pipeline, lambda: flood(topics, small))

    assert topics.reasons() == ["OP_WITHOUT_HALF"] * PAGES


@pytest.mark.nightly  # tests/spark/test_decode_reference.py holds the rule, on few records
@pytest.mark.timeout(300)
def test_feedback_that_strangers_forge_holds_nobody_up(
    topics: Topics, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    settings = topics.settings(tmp_path / "checkpoint")
    topics.create(settings, [f"{topics.prefix}orders"], ["g"])

    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        finals(topics, pipeline, lambda: flood_feedback(topics), is_refused=False)
