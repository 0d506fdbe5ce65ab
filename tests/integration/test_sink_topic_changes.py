"""What is known of a topic ages: the sink against a real broker while its topics change."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import NewPartitions
from tests.integration.bad_records import (
    admin,
    bodies,
    make_topic,
    send,
    set_config,
)
from tests.integration.sinking import World, commits, delete_topic

from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka.cluster.topic_directory import TRANSACTION_END_BYTES
from checkback.sinks.kafka.transaction.producer import MarkedProducer
from checkback.testing.waiting import wait_until

BARE_BYTES = 68
"""What a batch of one record takes up without a body."""


def test_partitions_that_were_added_are_asked_for_within_a_minute(either: World) -> None:
    either.halves([b"a"])
    send(either, b"b", [("REAL_QID", b"3")])
    writer = either.writer()
    writer.write([commits(0)], 0)
    client = admin(either)
    client.create_partitions([NewPartitions(either.real, 4)])[either.real].result()
    # The broker that answers a listing learns of it a moment later.
    wait_until(lambda: len(client.list_topics(either.real).topics[either.real].partitions) == 4)
    writer.directory.clock_s = lambda: time.monotonic() + 60

    writer.write([commits(1)], 1)

    assert writer.directory.find(either.real).partitions == 4  # type: ignore[union-attr]
    assert bodies(either, either.real) == [b"a", b"b"]


def test_a_topic_that_was_recreated_smaller_loses_no_record(either: World) -> None:
    shrunk = make_topic(either, "shrunk", partitions=4)
    producer_headers = [("REAL_TOPIC", shrunk.encode()), ("REAL_QID", b"3")]
    producer = Producer(dict(either.settings.connection))
    for body in (b"a", b"b"):
        sent: Any = [("PGROUP", b"g"), *producer_headers]
        producer.produce(either.names.half, body, b"k", 0, headers=sent)
    producer.flush()
    writer = either.writer()
    writer.write([commits(0)], 0)
    delete_topic(either.settings.connection, shrunk)
    make_topic(either, "shrunk", partitions=2)

    report = writer.write([commits(1)], 1)

    assert report.counts["finals"] == 1
    assert bodies(either, shrunk) == [b"b"]


def test_a_limit_that_was_raised_is_noticed_within_a_minute(either: World) -> None:
    small = make_topic(either, "small", max_message_bytes="2000")
    either.halves([bytes(3_000), bytes(3_000)], real=small)
    writer = either.writer()
    first = writer.write([commits(0)], 0)
    set_config(either, small, max_message_bytes="100000")
    writer.directory.clock_s = lambda: time.monotonic() + 60

    second = writer.write([commits(1)], 1)

    assert (first.counts["finals_refused"], second.counts["finals"]) == (1, 1)


def test_more_in_sync_replicas_than_a_topic_has_are_asked_for_by_nobody(either: World) -> None:
    lone = make_topic(either, "lone", min_insync_replicas="2")
    either.halves([b"a"], real=lone)

    report = either.writer().write([commits(0)], 0)

    assert report.counts["finals"] == 1
    assert bodies(either, lone) == [b"a"]


def test_a_topic_on_which_no_transaction_can_end_gets_no_final(either: World) -> None:
    timeless = make_topic(either, "timeless", message_timestamp_before_max_ms="0")
    either.halves([b"a"], real=timeless)
    either.halves([b"b"])
    writer = either.writer()

    first = writer.write([commits(0)], 0)
    second = writer.write([commits(1)], 1)

    assert (first.counts["finals_refused"], second.counts["finals"]) == (1, 1)
    assert bodies(either, either.real) == [b"b"]


def test_a_transaction_that_the_brokers_can_not_end_is_named_and_not_waited_for(
    world: World,
) -> None:
    timeless = make_topic(world, "timeless", message_timestamp_before_max_ms="0")
    narrow = make_topic(world, "narrow")
    block(world, timeless, narrow)
    begun_s = time.monotonic()

    with pytest.raises(BrokerError) as raised:
        MarkedProducer(world.settings, 0, init_timeout_s=3)

    assert time.monotonic() - begun_s < 20
    bounds = "message.timestamp.before.max.ms and max.message.bytes"
    assert f"Raise max.message.bytes of {narrow}, {bounds} of {timeless}" in raised.value.remedy
    assert raised.value.exit_code == 3


def block(world: World, *topics: str) -> None:
    """Write to topics, and have a broker reject the end of the transaction.

    The end is a record as any other. A topic that takes no record of its size keeps the transaction
    open as one does whose end comes too late for its bound, but without luck.
    """
    name = world.settings.transactional_id(0)
    producer = Producer({**world.settings.connection, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    for topic in topics:
        producer.produce(topic, b"x", timestamp=ahead_ms())
    producer.flush(30)
    for topic in topics:
        set_config(world, topic, max_message_bytes=str(TRANSACTION_END_BYTES - 1))
        wait_until(partial(takes_no_marker, world, topic), what="no record of that size is taken")
    producer.commit_transaction(30)


def takes_no_marker(world: World, topic: str) -> bool:
    body = bytes(TRANSACTION_END_BYTES - BARE_BYTES)
    errors: list[KafkaError | None] = []
    producer = Producer(dict(world.settings.connection))
    producer.produce(topic, body, timestamp=ahead_ms(), on_delivery=lambda e, _: errors.append(e))
    producer.flush(30)
    return errors[0] is not None and errors[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


def ahead_ms() -> int:
    """Return a time that no topic finds too old, however small its bound is."""
    return int(time.time() * 1_000) + 60_000
