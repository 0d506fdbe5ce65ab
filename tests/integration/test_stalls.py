"""Open transactions on the topics that the pipeline reads, on a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from tests.integration.running import Pipeline, Topics, wait_until
from tests.integration.scraping import fetch
from tests.integration.shared_jvm import SharedJvm

from checkback.deploy.broker import free_ports
from checkback.operations.doctor.doctor import Doctor
from checkback.streaming.reports.open_input import Stall, StallWatch


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


def scraped(url: str) -> list[str]:
    _, said = fetch(f"{url}/metrics")
    return [line for line in said.splitlines() if line.startswith("checkback_stall_seconds{")]


def test_progress_line_metrics_and_doctor_name_the_producer_and_say_what_to_do(
    topics: Topics, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    settings = topics.settings(tmp_path / "checkpoint", metrics_port=free_ports(1)[0])
    topics.create(settings)
    name = f"{topics.prefix}batch-loader"
    loader = Producer({**topics.connection, "transactional.id": name})
    loader.init_transactions(30)
    loader.begin_transaction()
    loader.produce(topics.names.op, b"x", partition=3)
    loader.flush(30)

    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        url = pipeline.wait_for("started")["metrics_url"]
        told = stall_of(pipeline)
        series = scraped(url)
        found = [one for one in Doctor(settings, lambda: 0).findings() if name in one.says]
        loader.abort_transaction(30)
        wait_until(lambda: scraped(url) == [], 30, "no series once the transaction is over")

    producer, place = told.producer_id, f'topic="op",partition="3",producer_id="{told.producer_id}"'
    assert (told.topic, told.partition, told.transactional_id) == (topics.names.op, 3, name)
    assert producer >= 0
    [line] = series
    assert all(part in line for part in place.split(","))
    [finding] = found
    assert f"producer {producer} ({name})" in finding.says
    assert finding.remedy == told.remedy(topics.bootstrap_servers)


def stall_of(pipeline: Pipeline) -> Stall:
    """Wait for a progress line that tells of a stall."""
    while True:
        line = pipeline.wait_for("progress")
        if line["stalls"]:
            [stall] = line["stalls"]
            return Stall(**stall)
