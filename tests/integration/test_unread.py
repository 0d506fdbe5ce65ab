"""What is not read is seen from outside the query, on a real broker."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from tests.integration.running import Topics
from tests.integration.scraping import fetch
from tests.integration.shared_jvm import SharedJvm

from checkback.deploy.broker import free_ports
from checkback.operations.doctor.doctor import Doctor
from checkback.operations.doctor.judgements import Result
from checkback.operations.topics.lag import oldest_unread_ms, read_positions, topic_ends
from checkback.protocol.configuration import Settings

HOLD_MS = 40_000
"""The end of each batch is held for so long, and nothing is read meanwhile."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def unread_on(line: dict[str, Any], topic: str) -> dict[str, Any]:
    return next((one for one in line["unread"] if one["topic"] == topic), {"still_s": 0.0})


def test_a_query_that_reads_nothing_is_seen_in_line_metrics_probe_and_doctor(
    bootstrap_servers: str, unique: str, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    """Its own progress says that all is read, as of its last batch."""
    topics = Topics(bootstrap_servers, unique)
    settings = topics.settings(
        tmp_path / "checkpoint", metrics_port=free_ports(1)[0], trigger_interval_ms=HOLD_MS
    )
    topics.create(settings)
    half = topics.names.half
    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        url = pipeline.wait_for("started")["metrics_url"]
        while pipeline.wait_for("progress")["batch_id"] != 1:  # the first one is committed
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

    found = unread_on(line, half)
    assert found["records"] == 1
    assert 5 <= found["still_s"] <= found["oldest_s"] <= waited_s + 10
    assert line["batch_age_ms"] >= 5_000
    assert 'checkback_lag_records{topic="half"} 1.0' in metrics
    assert f"1 unread on {half}, the oldest for" in probe
    assert finding.result is Result.OK, "ten intervals have not passed"
    assert f"1 on {half}" in finding.says


def test_the_age_of_the_oldest_unread_record_comes_from_the_brokers(
    bootstrap_servers: str, unique: str
) -> None:
    topics = Topics(bootstrap_servers, unique)
    settings: Settings = topics.settings("nowhere")
    topics.create(settings)
    half = topics.names.half
    producer = Producer({**topics.connection, "transactional.id": f"{unique}aborts"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(half, b"aborted", partition=0)
    producer.flush(30)
    producer.abort_transaction(30)
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
