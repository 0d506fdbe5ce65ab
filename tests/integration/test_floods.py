"""One producer group that floods, and another one that wants its messages in time."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.integration.running import COMMIT, Topics, wait_until
from tests.integration.shared_jvm import SharedJvm

from checkback.protocol.configuration import NEW_PAGE_SIZE
from checkback.protocol.records import Op

PAGES = 60_000
VISIBLE_WITHIN_S = 45
"""A call for each of half as many pages took 28 s on two cores with nothing else to do."""
HALF_PARTITIONS = STATE_PARTITIONS = 2


@pytest.fixture
def topics(bootstrap_servers: str, unique: str) -> Topics:
    return Topics(bootstrap_servers, unique, half_partitions=HALF_PARTITIONS)


def flood(topics: Topics, group: str) -> None:
    """Write commits of halves that nobody wrote, each in another page."""
    producer = Producer({**topics.connection, "linger.ms": 20})
    for number in range(PAGES):
        partition, page = number % HALF_PARTITIONS, number // HALF_PARTITIONS + 1
        op = Op(partition, page * NEW_PAGE_SIZE, group, f"none-{number}", COMMIT)
        headers: Any = op.headers()
        producer.produce(topics.names.op, op.value(), op.key(), partition, headers=headers)
        producer.poll(0)
    producer.flush(60)


@pytest.mark.nightly  # tests/spark/test_op_page_bound.py holds the rule, without 60,000 pages
@pytest.mark.timeout(300)
def test_the_ops_of_one_group_that_name_pages_without_end_are_bounded(
    topics: Topics, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    settings = topics.settings(tmp_path / "checkpoint")
    real = f"{topics.prefix}orders"
    topics.create(settings, [real], ["g", "loud"])

    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started")
        topics.send_op(topics.send_half(b"before", real), "before", COMMIT)
        wait_until(lambda: topics.bodies(real) == ["before"], what="the first final")
        flood(topics, "loud")
        sent_s = time.monotonic()
        topics.send_op(topics.send_half(b"healthy", real), "healthy", COMMIT)
        wait_until(lambda: "healthy" in topics.bodies(real), VISIBLE_WITHIN_S, "the healthy final")
        print(f"the healthy final was visible after {time.monotonic() - sent_s:.1f} s")
        wait_until(lambda: pipeline.wait_for("progress")["refused"], what="a line that tells")
        assert pipeline.terminate() == 0, pipeline.errors()
        lines = [line for line in pipeline.drain() if line["event"] == "progress"]

    refused = sum(line["refused"].get("OP_PAGES_EXCEEDED", 0) for line in lines)
    batches = lines[-1]["batch_id"] + 1
    admitted_max = settings.op_pages_per_group_max * STATE_PARTITIONS * batches
    assert PAGES - admitted_max <= refused < PAGES
    assert max(line["refused_groups"].get("loud", 0) for line in lines) > 0
    assert topics.reasons() == ["OP_PAGES_EXCEEDED"] * refused
