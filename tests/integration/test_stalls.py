"""Open transactions on the topics that the pipeline reads, on a real broker."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from tests.integration.running import Topics, wait_until

from checkback.streaming.stalls import Stall, StallWatch


@pytest.fixture
def topics(bootstrap_servers: str, unique: str) -> Topics:
    return Topics(bootstrap_servers, unique, half_partitions=4)


def test_an_open_transaction_that_holds_up_reading_is_named_with_its_producer(
    topics: Topics,
) -> None:
    settings = topics.settings("nowhere")
    topics.create(settings)
    connection = {"bootstrap.servers": topics.bootstrap_servers}
    name = f"{topics.prefix}batch-loader"
    loader = Producer({**connection, "transactional.id": name})
    loader.init_transactions(30)
    loader.begin_transaction()
    loader.produce(topics.names.half, b"x", partition=2)
    loader.flush(30)
    now_s = 100.0
    watch = StallWatch(settings, AdminClient(connection), lambda: now_s)

    first = watch.look()
    now_s = 115.0
    [stall] = watch.look()

    assert first == []
    assert stall.producer_id >= 0
    assert stall == Stall(topics.names.half, 2, 0, 1, 15.0, stall.producer_id, name)
    loader.abort_transaction(30)

    def is_over() -> bool:  # the broker writes it down a little after it has said so
        nonlocal now_s
        now_s += 15.0
        return watch.look() == []

    wait_until(is_over, what="nothing that stands still")
