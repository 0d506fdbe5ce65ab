"""What is not read, and who holds up reading, is seen from outside the query, on a real broker."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient
from tests.integration.running import Pipeline, Topics, left_open, wait_until
from tests.integration.scraping import fetch
from tests.integration.shared_jvm import SharedJvm

from checkback.deploy.broker import free_ports
from checkback.operations.doctor.doctor import Doctor
from checkback.operations.doctor.judgements import Result
from checkback.operations.topics.lag import oldest_unread_ms, read_positions, topic_ends
from checkback.protocol.configuration import Settings
from checkback.streaming.reports.stalls import InputWatch, Stall

HOLD_MS = 30_000
"""The end of each batch is held for so long, and nothing is read meanwhile."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def unread_on(line: dict[str, Any], topic: str) -> dict[str, Any]:
    return next((one for one in line["unread"] if one["topic"] == topic), {"still_s": 0.0})


def scraped(url: str) -> list[str]:
    _, said = fetch(f"{url}/metrics")
    return [line for line in said.splitlines() if line.startswith("checkback_stall_seconds{")]


def stall_of(pipeline: Pipeline) -> Stall:
    """Wait for a progress line that tells of a stall."""
    while True:
        line = pipeline.wait_for("progress")
        if line["stalls"]:
            [stall] = line["stalls"]
            return Stall(**stall)


def test_what_is_not_read_and_who_holds_it_up_is_seen_in_line_metrics_probe_and_doctor(
    bootstrap_servers: str, unique: str, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    """Its own progress says that all is read, as of its last batch."""
    topics = Topics(bootstrap_servers, unique)
    settings = topics.settings(
        tmp_path / "checkpoint", metrics_port=free_ports(1)[0], trigger_interval_ms=HOLD_MS
    )
    topics.create(settings)
    half, name = topics.names.half, f"{unique}batch-loader"
    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        url = pipeline.wait_for("started")["metrics_url"]
        while (pipeline.wait_for("progress")["batch_id"] or 0) < 1:  # the first one is committed
            pass
        topics.send_half(b"waits", f"{unique}real")
        sent_ms = now_ms()
        line = pipeline.wait_for("progress")
        while unread_on(line, half)["still_s"] < 5:
            line = pipeline.wait_for("progress")
        _, metrics = fetch(f"{url}/metrics")
        _, probe = fetch(f"{url}/readyz")
        [finding] = [
            one for one in Doctor(settings, now_ms).findings() if one.check == "unread records"
        ]
        waited_s = (now_ms() - sent_ms) / 1_000
        loader = left_open(topics.connection, name, topics.names.op, 1)
        stall, series = stall_of(pipeline), scraped(url)
        named = [one for one in Doctor(settings, now_ms).findings() if name in one.says]
        loader.abort_transaction(30)
        wait_until(lambda: scraped(url) == [], what="no series once the transaction is over")

    found = unread_on(line, half)
    assert found["records"] == 1
    assert 5 <= found["still_s"] <= found["oldest_s"] <= waited_s + 10
    assert line["batch_age_ms"] >= 5_000
    assert 'checkback_lag_records{topic="half"} 1.0' in metrics
    assert f"1 unread on {half}, the oldest for" in probe
    assert finding.result is Result.OK, "ten intervals have not passed"
    assert f"1 on {half}" in finding.says
    assert (stall.topic, stall.partition, stall.transactional_id) == (topics.names.op, 1, name)
    place = f'topic="op",partition="1",producer_id="{stall.producer_id}"'
    assert all(part in one for one in series for part in place.split(","))
    assert (len(series), len(named)) == (1, 1)
    assert f"producer {stall.producer_id} ({name})" in named[0].says
    assert named[0].remedy == stall.remedy(topics.bootstrap_servers)


def test_an_open_transaction_that_holds_up_reading_is_named_with_its_producer(
    bootstrap_servers: str, unique: str
) -> None:
    topics = Topics(bootstrap_servers, unique, half_partitions=4)
    settings = topics.settings("nowhere")
    topics.create(settings)
    name = f"{topics.prefix}batch-loader"
    loader = left_open(topics.connection, name, topics.names.half, 2)
    now_s = 100.0
    watch = InputWatch(settings, AdminClient(dict(topics.connection)), lambda: now_s)

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


def test_the_age_of_the_oldest_unread_record_comes_from_the_brokers(
    bootstrap_servers: str, unique: str
) -> None:
    topics = Topics(bootstrap_servers, unique)
    settings: Settings = topics.settings("nowhere")
    topics.create(settings)
    half = topics.names.half
    left_open(topics.connection, f"{unique}aborts", half).abort_transaction(30)
    read = {half: dict.fromkeys(range(settings.half_partitions), 0)}

    def oldest() -> int | None:
        positions = read_positions(read, {}, topic_ends(settings, [half]))
        return oldest_unread_ms(settings, positions)

    aborted_alone = oldest()
    before_ms = now_ms()
    topics.send_half(b"first", f"{unique}real")
    between_ms = now_ms()
    topics.send_half(b"second", f"{unique}real")

    assert aborted_alone is None, "there is nothing to read"
    assert before_ms - 1_000 <= (oldest() or 0) <= between_ms + 1_000
