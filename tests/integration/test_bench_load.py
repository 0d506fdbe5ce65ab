"""What the bench writes to Kafka by itself: transactions, and ticks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from bench.runs.trial import BenchSetting, Trial
from bench.runs.workload import ends_of
from confluent_kafka import Message
from tests.integration.bad_records import set_topic_config

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError
from checkback.protocol.records import tick_headers
from checkback.testing import Topics, wait_until

Read = Callable[[str], list[Message]]


@pytest.fixture
def trial(bootstrap_servers: str, unique: str, tmp_path: Path) -> Trial:
    settings = Settings(bootstrap_servers=bootstrap_servers, topic_prefix=unique, half_partitions=2)
    return BenchSetting(settings, tmp_path, 7, body_bytes=64).trial("load").create()


@pytest.fixture
def read(trial: Trial) -> Read:
    """Returns the records of a topic in the order of partitions and offsets."""
    topics = Topics(trial.settings.bootstrap_servers, trial.settings.topic_prefix)

    def found(topic: str) -> list[Message]:
        return sorted(
            topics.read(topic), key=lambda record: (record.partition() or 0, record.offset() or 0)
        )

    return found


def test_each_half_has_its_op_in_the_same_partition(trial: Trial, read: Read) -> None:
    assert trial.load(10) == 10
    assert trial.load(4) == 4  # continues where the first one ended

    halves, ops = read(trial.settings.topics.half), read(trial.settings.topics.op)
    assert [(half.partition(), half.offset()) for half in halves] == [
        (partition, offset) for partition in (0, 1) for offset in range(7)
    ]
    for half, op in zip(halves, ops, strict=True):
        partition, offset = half.partition(), half.offset()
        assert half.headers() == trial.workload.half_headers(partition or 0, offset or 0)
        assert len(half.value() or b"") == 64
        assert (op.partition(), op.value()) == (partition, b"%d" % (offset or 0))
        assert dict(op.headers() or [])["UNIQ_KEY"] == dict(half.headers() or [])["UNIQ_KEY"]


def test_halves_are_written_without_ops(trial: Trial, read: Read) -> None:
    connection, topics = trial.stage.connection, trial.settings.topics

    assert trial.load(5, has_ops=False) == 6  # the same number in each of the two partitions
    assert ends_of(connection, topics.half, [0, 1]) == {0: 3, 1: 3}
    assert read(topics.op) == []


def test_a_record_that_the_brokers_do_not_take_fails_the_load(trial: Trial) -> None:
    set_topic_config(trial.stage.connection, trial.settings.topics.half, max_message_bytes="1000")
    large = replace(trial.workload, body_bytes=2_000)

    with pytest.raises(BrokerError, match="records were not stored"):
        trial.load(1, workload=large)


def test_ticks_are_written_only_inside_the_block(trial: Trial, read: Read) -> None:
    feedback = trial.settings.topics.feedback
    with trial.ticking():
        wait_until(lambda: len(read(feedback)) >= 3)

    ticks = read(feedback)
    assert {tick.partition() for tick in ticks} == {0}
    assert all(tick.headers() == tick_headers() for tick in ticks)
    assert len(read(feedback)) == len(ticks)
