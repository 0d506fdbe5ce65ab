"""A batch is limited by its number of records, and a backlog of the largest halves passes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.deciding import plain_half
from tests.integration.bad_records import set_topic_config
from tests.integration.running import COMMIT, Topics, wait_until
from tests.integration.shared_jvm import SharedJvm

from checkback.protocol.records import Op

HALVES = 1_000
BODY = b"v" * (4 * 1_048_576 - 1_024)
"""As large as max_message_bytes lets a half with its headers be, about."""
PATIENCE_S = 500.0


def send_committed(topics: Topics, real: str) -> None:
    """Store halves without ops, then a commit of each."""
    producer = Producer({**topics.connection, "message.max.bytes": 5_000_000})
    for number in range(HALVES):
        headers = plain_half(f"{number}", real)
        producer.produce(topics.names.half, BODY, b"k", number % 2, headers=list(headers))
        if number % 50 == 0:
            assert producer.flush(60) == 0
    assert producer.flush(60) == 0
    for number in range(HALVES):
        op = Op(number % 2, number // 2, "g", f"{number}", COMMIT)
        producer.produce(
            topics.names.op, op.value(), op.key(), number % 2, headers=list(op.headers())
        )
    assert producer.flush(60) == 0


def finals(topics: Topics, real: str) -> Counter[tuple[str, int]]:
    """Return how often each transaction id and body size stands on a real topic."""
    reader = Consumer(
        {**topics.connection, "group.id": "reader", "isolation.level": "read_committed"}
    )
    reader.assign([TopicPartition(real, number, 0) for number in range(2)])
    found: Counter[tuple[str, int]] = Counter()
    while (record := reader.poll(10)) is not None:
        assert record.error() is None
        key = dict(record.headers() or [])["UNIQ_KEY"] or b""
        found[key.decode(), len(record.value() or b"")] += 1
    reader.close()
    return found


@pytest.mark.nightly  # 4 GB go through the brokers four times
@pytest.mark.timeout(1_800)
def test_a_backlog_of_a_thousand_of_the_largest_halves_passes(
    bootstrap_servers: str, unique: str, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    """The driver's JVM has a gigabyte, a quarter of what one batch reads."""
    topics = Topics(bootstrap_servers, unique)
    settings = topics.settings(tmp_path / "checkpoint", transaction_timeout_ms=3_600_000)
    real = f"{topics.prefix}orders"
    topics.create(settings, [real], ["g"])
    set_topic_config(topics.connection, real, max_message_bytes="5000000")
    send_committed(topics, real)

    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started")
        wait_until(
            lambda: sum(line["counts"].get("finals", 0) for line in pipeline.drain()
                        if line["event"] == "progress") >= HALVES,
            PATIENCE_S, what="all finals",
        )  # fmt: skip
        assert pipeline.terminate() == 0, pipeline.errors()

    assert finals(topics, real) == {(f"{number}", len(BODY)): 1 for number in range(HALVES)}
    assert topics.reasons() == []
