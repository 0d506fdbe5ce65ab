"""Who may write: sessions, claims and the transaction timeout, against a real broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka.admin import AdminClient
from numpy.typing import NDArray
from tests.integration.running import Topics, wait_until
from tests.integration.sinking import commits

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError, ConfigurationError, FencedError
from checkback.sinks.kafka.cluster.topic_directory import TopicDirectory
from checkback.sinks.kafka.read.record_reader import RecordReader
from checkback.sinks.kafka.transaction.epoch import EpochWatch, begin_epoch
from checkback.sinks.kafka.transaction.errors import ProducerLostError
from checkback.sinks.kafka.transaction.producer import MarkedProducer
from checkback.sinks.partition.writer import BatchWriter
from checkback.sinks.records.sink_record import SinkRecord
from checkback.sinks.records.source_record import PlacedRecord
from checkback.sinks.settings import SinkSettings
from checkback.streaming.start.preflight import look_at_cluster

TIMEOUT_MS = 1_000
PARTITIONS = 2


@pytest.fixture
def settings(topics: Topics, tmp_path: Path) -> Settings:
    made = topics.settings(tmp_path / "checkpoint")
    topics.create(made, [f"{topics.prefix}orders"])
    return made


@pytest.fixture
def sink(settings: Settings, unique: str) -> SinkSettings:
    return SinkSettings(settings, unique, settings.connection(), TIMEOUT_MS)


def write(producer: MarkedProducer, real: str, body: bytes, batch: int) -> None:
    producer.begin()
    producer.send(SinkRecord(real, 0, None, body, [], 0))
    producer.commit(batch, 0)


def test_the_younger_of_two_jobs_writes_and_the_older_one_ends(
    topics: Topics, sink: SinkSettings
) -> None:
    real = f"{topics.prefix}orders"
    older = begin_epoch(sink, PARTITIONS, (), 0)
    kept = MarkedProducer(older, 1)
    write(kept, real, b"older", 0)
    watch = EpochWatch(older)
    watch.require_own()

    younger = begin_epoch(sink, PARTITIONS, (0, 1), 1)

    with pytest.raises(ProducerLostError):
        write(kept, real, b"twice", 1)
    with pytest.raises(FencedError, match="taken over"):
        MarkedProducer(older, 1)
    with pytest.raises(FencedError, match="taken over"):
        watch.require_own()
    watch.close()
    write(MarkedProducer(younger, 1), real, b"younger", 1)
    assert topics.bodies(real) == ["older", "younger"]
    assert younger.epoch == older.epoch + 1


def left_open(sink: SinkSettings, topics: Topics) -> MarkedProducer:
    """Return a producer with an open transaction, behind whose record stands one without."""
    real = f"{topics.prefix}orders"
    left = MarkedProducer(sink, 0)
    left.begin()
    left.send(SinkRecord(real, 0, None, b"never", [], 0))
    left.flush()
    topics.send_raw(real, b"after", [], 0)
    return left


def test_a_start_ends_what_a_killed_job_left_open(topics: Topics, sink: SinkSettings) -> None:
    """Nobody who reads committed has to wait for the timeout."""
    real = f"{topics.prefix}orders"
    patient = begin_epoch(replace(sink, transaction_timeout_ms=60_000), PARTITIONS, (), 0)
    _left = left_open(patient, topics)
    assert topics.bodies(real) == []

    begin_epoch(sink, PARTITIONS, (0, 1), 0)

    wait_until(lambda: topics.bodies(real) == ["after"], what="an aborted transaction")


def test_what_nobody_ends_holds_readers_up_no_longer_than_its_timeout(
    topics: Topics, sink: SinkSettings
) -> None:
    real = f"{topics.prefix}orders"
    _left = left_open(begin_epoch(sink, 1, (), 0), topics)

    # Without a timeout of its own a transaction may stay open for a minute.
    wait_until(lambda: topics.bodies(real) == ["after"], 45, what="the timeout")


@dataclass(slots=True)
class SlowHalves(RecordReader):
    """A half topic so slow that no transaction gets done in time."""

    def read(
        self, partition: int, offsets: NDArray[np.int64]
    ) -> Iterator[tuple[int, PlacedRecord | None]]:
        for found in RecordReader.read(self, partition, offsets):
            yield found
            if found[0] == offsets[0]:
                # The broker's clock can't be set; it looks each second for what is past its time.
                time.sleep(TIMEOUT_MS / 1_000 + 1.5)


def test_a_batch_slower_than_its_timeout_is_told_as_such(
    topics: Topics, sink: SinkSettings
) -> None:
    """The brokers abort the transaction, which looks like a second job and is none."""
    for name in (b"a", b"b"):
        topics.send_half(name, f"{topics.prefix}orders")
    writer = BatchWriter(
        begin_epoch(sink, PARTITIONS, (), 0),
        0,
        SlowHalves(dict(sink.connection), topics.names.half),
        RecordReader(dict(sink.connection), topics.names.op),
        TopicDirectory(AdminClient(dict(sink.connection))),
    )

    with pytest.raises(BrokerError, match="sink_transaction_timeout_ms") as failure:
        writer.write([commits(0, 1)], 0)

    assert failure.value.fields["timeout_ms"] == TIMEOUT_MS
    assert topics.bodies(f"{topics.prefix}orders") == []


def test_a_timeout_that_the_brokers_do_not_allow_is_refused(settings: Settings) -> None:
    limit_ms = look_at_cluster(settings, settings.connection()).transaction_timeout_max_ms
    assert limit_ms == 900_000

    with pytest.raises(ConfigurationError, match=r"transaction\.max\.timeout\.ms"):
        look_at_cluster(
            replace(settings, sink_transaction_timeout_ms=limit_ms + 1), settings.connection()
        )
