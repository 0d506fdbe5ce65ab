"""Commits that are read long after their halves: behind an open transaction, after an outage."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.integration.running import COMMIT, Topics, wait_until
from tests.integration.shared_jvm import SharedJvm

RETENTION_MS = 2_000
HALVES = 300


@pytest.fixture
def topics(bootstrap_servers: str, unique: str) -> Topics:
    return Topics(bootstrap_servers, unique, half_partitions=2)


@contextmanager
def open_transaction(topics: Topics, topic: str) -> Iterator[None]:
    """Hold back whatever is written to a topic meanwhile."""
    producer = Producer({**topics.connection, "transactional.id": f"{topics.prefix}somebody"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"of nobody", partition=0)
    producer.flush(30)
    try:
        yield
    finally:
        producer.abort_transaction(30)


@pytest.mark.nightly  # tests/unit/test_batch_terms.py: what is unread hides a partition
def test_a_half_whose_commit_nobody_can_read_yet_is_not_discarded(
    topics: Topics, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    """It was: an open transaction of longer than check_max intervals lost the message."""
    settings = topics.settings(
        tmp_path / "checkpoint", check_max=1, transaction_timeout_ms=0, check_interval_ms=1
    )
    names, real = topics.names, f"{topics.prefix}orders"
    topics.create(settings, [real], ["g"])

    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started")
        with open_transaction(topics, names.op):
            at = topics.send_half(b"committed", real)
            topics.send_op(at, "committed", COMMIT)
            topics.send_half(b"silent", real, partition=1)
            # Both halves are as old, and as silent as far as anybody can read.
            wait_until(lambda: "silent" in topics.bodies(names.discarded), what="a discard")
        wait_until(lambda: topics.bodies(real) == ["committed"], what="the final")
        assert pipeline.terminate() == 0, pipeline.errors()

    assert topics.bodies(names.discarded) == ["silent"]
    assert set(topics.bodies(names.check("g"))) == {"silent"}
    assert topics.reasons() == []


@pytest.mark.nightly  # tests/unit/test_batch_terms.py: what is unread hides a partition
def test_what_was_committed_before_an_outage_longer_than_the_retention_is_delivered(
    topics: Topics, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    """Every commit is read batches after its half, when the half is too old twice over."""
    settings = topics.settings(
        tmp_path / "checkpoint",
        batch_events_max=100,
        half_retention_ms=RETENTION_MS,
        check_max=1,
        transaction_timeout_ms=0,
        check_interval_ms=1,
    )
    topics.half_partitions = 1
    names, real = topics.names, f"{topics.prefix}orders"
    topics.create(settings, [real], ["g"])
    bodies = [f"{number:03}" for number in range(HALVES)]
    at = [topics.send_half(body.encode(), real) for body in bodies]
    for position, body in reversed(list(zip(at, bodies, strict=True))):
        topics.send_op(position, body, COMMIT)
    topics.send_half(b"silent", real)
    time.sleep(RETENTION_MS / 1_000)  # by the brokers' clock: nothing else makes a half old

    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started")
        wait_until(lambda: topics.bodies(names.discarded), what="the one that nobody settled")
        assert pipeline.terminate() == 0

    assert topics.bodies(real) == bodies
    assert topics.bodies(names.discarded) == ["silent"]
    assert topics.reasons() == []
    assert set(topics.bodies(names.check("g"))) <= {"silent"}
