"""Records that a broker stores in a few bytes, and that are more than a heap once unpacked."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from tests.deciding import plain_half
from tests.integration.bad_records import set_topic_config
from tests.integration.running import Pipeline, Topics, commit, deployed, wait_until

RECORDS = 280
BODY = bytes(3_900_000)
QUEUE_KB = 2_000_000


@pytest.fixture
def topics(bootstrap_servers: str, unique: str) -> Topics:
    return Topics(bootstrap_servers, unique, half_partitions=1)


def send_compressed(topics: Topics, real: str) -> None:
    """Send 1.1 GB of zeros, which are some 100 kB on the broker."""
    producer = Producer(
        {
            **topics.connection,
            "compression.type": "zstd",
            "batch.size": QUEUE_KB * 1_000,
            "message.max.bytes": 1_000_000_000,
            "queue.buffering.max.kbytes": QUEUE_KB,
            "linger.ms": 2_000,
        }
    )
    for number in range(RECORDS):
        made = plain_half(f"zeros {number}", real)
        producer.produce(topics.names.half, BODY, b"k", 0, headers=list(made))
    assert producer.flush(60) == 0


@pytest.mark.nightly  # test_retried_batch.py holds the rule, without three starts of Spark
def test_a_batch_that_does_not_fit_into_memory_holds_nobody_up_for_good(
    topics: Topics, tmp_path: Path
) -> None:
    """It ended the job at every start again; two of them are what it costs now.

    The half topic stores what producers packed, as one may that `topics create` did not make.
    """
    settings, real = deployed(topics, tmp_path, transaction_timeout_ms=600_000)
    set_topic_config(topics.connection, topics.names.half, compression_type="producer")
    send_compressed(topics, real)
    commit(topics, real, "healthy")

    for _ in range(2):
        with Pipeline(settings, tmp_path) as pipeline:
            assert pipeline.wait(120) == 3
    with Pipeline(settings, tmp_path) as pipeline:
        wait_until(lambda: topics.bodies(real) == ["healthy"], what="the healthy one's final")
        commit(topics, real, "later")
        wait_until(lambda: topics.bodies(real) == ["healthy", "later"], what="a later final")
        assert pipeline.terminate() == 0, pipeline.errors()


def test_the_brokers_refuse_a_record_that_unpacks_to_more_than_its_limit(topics: Topics) -> None:
    topics.create()
    errors: list[KafkaError | None] = []

    def told(error: KafkaError | None, _: Message) -> None:
        errors.append(error)

    largest = {"compression.type": "zstd", "message.max.bytes": 100_000_000}
    producer = Producer({**topics.connection, **largest, "batch.size": 100_000_000})
    for topic in topics.names.read:
        for size in (4_000_000, 50_000_000):
            producer.produce(topic, bytes(size), partition=0, on_delivery=told)
            assert producer.flush(30) == 0

    codes = [None if error is None else error.code() for error in errors]
    assert codes == [None, KafkaError.MSG_SIZE_TOO_LARGE] * len(topics.names.read)
