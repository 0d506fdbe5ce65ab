"""One producer group that floods, and another one that wants its messages in time."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.integration.running import COMMIT, Topics, wait_until
from tests.integration.shared_jvm import SharedJvm

from checkback.protocol.configuration import NEW_PAGE_SIZE
from checkback.protocol.records import Op, undelivered_check_headers
from checkback.streaming.batch.terms import PAGES_AHEAD

PAGES = 60_000
VISIBLE_WITHIN_S = 45
"""A call for each of 30,000 pages took 28 s on two cores with nothing else to do."""
HALF_PARTITIONS = 2
AHEAD, FORGOTTEN, FEEDBACK = "ops of pages ahead", "ops of forgotten pages", "feedback"


@pytest.fixture
def topics(bootstrap_servers: str, unique: str) -> Topics:
    return Topics(bootstrap_servers, unique, half_partitions=HALF_PARTITIONS)


def flood(topics: Topics, kind: str, page_size: int) -> None:
    """Write ops of halves that nobody wrote, or feedback on them, each in another page."""
    producer = Producer({**topics.connection, "linger.ms": 20})
    headers: Any = undelivered_check_headers(1)
    for number in range(PAGES):
        partition, page = number % HALF_PARTITIONS, number // HALF_PARTITIONS + 1
        op = Op(partition, page * page_size, "loud", f"none-{number}", COMMIT)
        of_op: Any = op.headers()
        if kind == FEEDBACK:
            producer.produce(topics.names.feedback, op.value(), None, partition, headers=headers)
        else:
            producer.produce(topics.names.op, op.value(), op.key(), partition, headers=of_op)
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


@pytest.mark.nightly  # tests/spark/test_decode_reference.py holds the rule, on few records
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", [AHEAD, FORGOTTEN, FEEDBACK])
def test_a_flood_about_halves_that_nobody_wrote_holds_nobody_up(
    topics: Topics, tmp_path: Path, shared_jvm: SharedJvm, kind: str
) -> None:
    real, page_size = f"{topics.prefix}orders", 64 if kind == FORGOTTEN else NEW_PAGE_SIZE
    settings = replace(topics.settings(tmp_path / "checkpoint"), page_size=page_size)
    topics.create(settings, [real], ["g", "loud"])
    if kind == FORGOTTEN:
        lengthen(topics, (PAGES // HALF_PARTITIONS + 1) * page_size)

    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        topics.send_op(topics.send_half(b"before", real), "before", COMMIT)
        wait_until(lambda: topics.bodies(real) == ["before"], what="the first final")
        flood(topics, kind, page_size)
        sent_s = time.monotonic()
        topics.send_op(topics.send_half(b"healthy", real), "healthy", COMMIT)
        wait_until(lambda: "healthy" in topics.bodies(real), VISIBLE_WITHIN_S, "the healthy final")
        print(f"the healthy final was visible after {time.monotonic() - sent_s:.1f} s")
        if kind != FEEDBACK:
            wait_until(lambda: pipeline.wait_for("progress")["refused"], what="a line that tells")
        assert pipeline.terminate() == 0, pipeline.errors()
        lines = [line for line in pipeline.drain() if line["event"] == "progress"]

    refused = len(topics.reasons())
    assert topics.reasons() == ["OP_WITHOUT_HALF"] * refused
    if kind == AHEAD:
        assert PAGES - HALF_PARTITIONS * PAGES_AHEAD <= refused < PAGES
        assert sum(line["refused"].get("OP_WITHOUT_HALF", 0) for line in lines) == refused
        assert max(line["refused_groups"].get("loud", 0) for line in lines) > 0
    else:
        assert refused == (PAGES if kind == FORGOTTEN else 0)
