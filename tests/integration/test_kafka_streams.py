"""What the job is compared with does the same work: the comparison would be idle otherwise."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from bench.runs.batches import steady_part
from bench.runs.kafka_streams import StreamsRun
from bench.runs.trial import BenchSetting
from bench.runs.workload import commits_among
from tests.integration.running import Topics

from checkback.protocol.configuration import Settings
from checkback.protocol.records import final_parts
from checkback.streaming.start.announce import write_tick

SEED = 7
TRANSACTIONS = 4_000


@pytest.mark.nightly  # of the bench alone: fetches jars, compiles, and starts a JVM
@pytest.mark.skipif(shutil.which("javac") is None, reason="runs from source: needs a JDK")
def test_kafka_streams_resolves_as_the_job_does(
    bootstrap_servers: str, unique: str, tmp_path: Path
) -> None:
    settings = Settings(bootstrap_servers=bootstrap_servers, topic_prefix=unique)
    trial = (
        BenchSetting(settings, tmp_path, SEED, body_bytes=64, small=True).trial("streams").create()
    )
    trial.load(TRANSACTIONS)
    write_tick(trial.settings)  # the job ran before
    halves = trial.settings.half_partitions

    with StreamsRun(trial, "kafka-streams", trial.real_topic) as streams:
        streams.wait_for_rows(2 * TRANSACTIONS, 120)
        streams.stop()
        assert sum(batch.rows for batch in streams.batches()) == 2 * TRANSACTIONS
        committed = sum(commits_among(SEED, count) for count in trial.next_offset.values())
        assert streams.finals == committed
        assert steady_part(streams.batches(), 0.25).rows > 0  # so small a run is measured, too
    found = Topics(bootstrap_servers, trial.settings.topic_prefix).read(trial.real_topic)
    wanted = [
        final_parts(trial.workload.half_headers(partition, offset), partition, offset).headers
        for partition in range(halves)
        for offset in range(TRANSACTIONS // halves)
        if trial.workload.commits(offset)
    ]
    assert len(wanted) == committed
    assert sorted(message.headers() or [] for message in found) == sorted(wanted)
    bodies = {partition: trial.workload.bodies(partition) for partition in range(halves)}
    assert {len(message.value() or b"") for message in found} == {64}
    assert {message.value() for message in found} <= {
        next(bodies[partition]) for partition in bodies for _ in range(TRANSACTIONS // halves)
    }
