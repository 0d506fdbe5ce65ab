"""Bad days, with real processes: two jobs, changed settings, vanished topics and markers."""

from __future__ import annotations

import json
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.integration.running import COMMAND, COMMIT, Pipeline, Topics, wait_until
from tests.integration.shared_jvm import SharedJvm
from tests.integration.sinking import delete_topic

from checkback.deploy.broker import QUICK_START, EmbeddedBroker
from checkback.protocol.configuration import Settings
from checkback.testing import PipelineProcess

ENVIRONMENT, REFUSED = 3, 4
OUTAGE_S = 20
ONE_BATCH_MS = 3 * 10**12
"""A trigger interval under which a start makes one batch: the next one is due in 95 years."""


def make(settings: Settings, folder: Path) -> Pipeline:
    folder.mkdir(exist_ok=True)
    return Pipeline(settings, folder)


def error_of(pipeline: Pipeline) -> dict[str, Any]:
    """The error document that the command ended with."""
    lines = (pipeline.folder / "run.err").read_text().splitlines()
    documents = [line for line in lines if line.startswith('{"error"')]
    return dict(json.loads(documents[-1])["error"])


def traces_of(pipeline: Pipeline) -> str:
    """Return what Spark printed: it goes to a file that the one line of the error names."""
    (line,) = pipeline.errors().splitlines()
    log = Path(line.rpartition("Spark's traces are in ")[2].split('"')[0].rstrip("."))
    traces = log.read_text()
    log.unlink()
    return traces


def commit(topics: Topics, name: str, partition: int = 0) -> None:
    at = topics.send_half(name.encode(), f"{topics.prefix}orders", partition=partition)
    topics.send_op(at, name, COMMIT)


ALL_ELSE: dict[str, Any] = {
    "transaction_timeout_ms": 600_000,
    "check_interval_ms": 1,
    "check_max": 1,
    "checks_per_batch_max": 20_000,
    "half_retention_ms": 1,
    "verdict_retention_ms": 0,
    "check_enabled": False,
    "reject_transactions": True,
    "max_message_bytes": 2_048,
    "sink_transaction_timeout_ms": 5_000,
}
"""Every setting that a decision could depend on, as another start might set it."""


def run_one_batch(shared_jvm: SharedJvm, settings: Settings, folder: Path, batch: int) -> None:
    """Run the pipeline for one batch, and leave no plan of the next."""
    log, checkpoint = folder / f"run-{uuid.uuid4().hex}", Path(settings.checkpoint)
    with shared_jvm.pipeline(settings, log) as pipeline:
        pipeline.wait_for("started")
        while pipeline.wait_for("progress")["batch_id"] != batch:
            pass
        assert pipeline.terminate() == 0
    assert (checkpoint / "commits" / f"{batch}").exists()
    for name in (f"{batch + 1}", f".{batch + 1}.crc"):
        (checkpoint / "offsets" / name).unlink(missing_ok=True)


@pytest.mark.nightly  # tests/unit/test_batch_terms.py
def test_a_replayed_batch_decides_as_the_first_try_did_whatever_was_set_since(
    topics: Topics, spark: SparkSession, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    """The crash is after the sink's commit and before Spark's commit log."""
    checkpoint = tmp_path / "checkpoint"
    first = topics.settings(
        checkpoint,
        trigger_interval_ms=ONE_BATCH_MS,
        transaction_timeout_ms=0,
        check_interval_ms=600_000,
        checks_per_batch_max=4,
    )
    topics.create(first, [f"{topics.prefix}orders"], ["g"])
    for number in range(10):
        topics.send_half(b"silent-%d" % number, "orders", partition=number % 2)
    commit(topics, "committed")
    topics.send_op((1, 77), "early", COMMIT, group="g")
    # Batch 0 reads; batch 1 asks, because all that batch 0 could miss has been read by then.
    for batch in (0, 1):
        run_one_batch(shared_jvm, first, tmp_path, batch)
    state, marks, checks = pages_after(spark, checkpoint), marks_of(topics), checks_of(topics)
    assert len(state) == 2
    assert 2 <= len(checks) <= 4
    for name in ("1", ".1.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)

    run_one_batch(shared_jvm, replace(first, **ALL_ELSE), tmp_path, 1)

    assert pages_after(spark, checkpoint) == state
    assert (marks_of(topics), checks_of(topics)) == (marks, checks)
    assert topics.bodies(f"{topics.prefix}orders") == ["committed"]
    assert topics.reasons() == []


def pages_after(spark: SparkSession, checkpoint: Path) -> list[bytes]:
    """Every page as batch 1 left it."""
    session: Any = spark._jsparkSession
    session.streams().active()  # without it the reader finds no coordinator in a fresh session
    state = spark.read.format("statestore").option("batchId", "1").load(str(checkpoint))
    return sorted(bytes(row.page) for row in state.select("value.groupState.page").collect())


def marks_of(topics: Topics) -> list[bytes]:
    return sorted(one.value() or b"" for one in topics.read(topics.names.settled))


def checks_of(topics: Topics) -> list[str]:
    return topics.bodies(topics.names.check("g"))


@pytest.mark.nightly  # tests/integration/test_preflight.py
def test_a_half_topic_that_vanishes_ends_the_job_and_a_new_one_is_not_taken_for_it(
    topics: Topics, tmp_path: Path
) -> None:
    settings = topics.settings(tmp_path / "checkpoint")
    topics.create(settings, [f"{topics.prefix}orders"], ["g"])
    commit(topics, "final")
    with make(settings, tmp_path / "run") as pipeline:
        pipeline.wait_for("started")
        wait_until(lambda: topics.bodies(f"{topics.prefix}orders") == ["final"], what="a final")
        delete_topic(topics.connection, topics.names.half)
        assert pipeline.wait(120) == ENVIRONMENT
        assert error_of(pipeline)["kind"] == "BrokerError"
        assert "UnknownTopicOrPartition" in traces_of(pipeline)

        pipeline.start()
        assert pipeline.wait(60) == ENVIRONMENT
        assert topics.names.half in error_of(pipeline)["fields"]["missing"]

        topics.create(settings)
        pipeline.start()
        assert pipeline.wait(60) == REFUSED
        assert error_of(pipeline)["fields"]["name"] == "half_topic_id"
    assert topics.bodies(f"{topics.prefix}orders") == ["final"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A file system of a few megabytes, in a mount namespace of its own: no root is needed."""
    disk = SmallDisk(tmp_path / "disk")
    if not disk.mount():
        pytest.skip("this system lets nobody but root mount a file system")
    yield disk
    disk.unmount()


@dataclass
class SmallDisk:
    """Where only processes that are started through it see it; from outside it is `inside`."""

    folder: Path
    _holder: subprocess.Popen[bytes] | None = None

    def mount(self) -> bool:
        self.folder.mkdir()
        mount = f"mount -t tmpfs -o size=6m none {self.folder} && echo && exec sleep infinity"
        self._holder = subprocess.Popen(
            ["unshare", "-Urm", "sh", "-c", mount], stdout=subprocess.PIPE
        )
        assert self._holder.stdout is not None
        return self._holder.stdout.readline() == b"\n"

    def unmount(self) -> None:
        assert self._holder is not None
        self._holder.kill()
        self._holder.wait()

    @property
    def inside(self) -> Path:
        assert self._holder is not None
        return Path(f"/proc/{self._holder.pid}/root{self.folder}")

    def command(self, program: str) -> Path:
        """Make a command that runs the program where the file system is seen."""
        assert self._holder is not None
        script = self.folder.parent / "in-namespace"
        enter = f"nsenter -t {self._holder.pid} -U -m --preserve-credentials"
        script.write_text(f'#!/bin/sh\nexec {enter} {program} "$@"\n')
        script.chmod(0o755)
        return script

    def fill(self) -> None:
        with suppress(OSError), (self.inside / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4_096))

    def make_room(self) -> None:
        (self.inside / "filler").unlink()


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_full_disk_under_the_checkpoint_ends_the_job_and_nothing_is_lost_or_doubled(
    topics: Topics, small_disk: SmallDisk, tmp_path: Path
) -> None:
    settings = topics.settings(small_disk.folder / "checkpoint")
    real = f"{topics.prefix}orders"
    topics.create(settings, [real], ["g"])
    program = (str(small_disk.command(COMMAND)), "run")
    with PipelineProcess(settings, tmp_path / "run", program=program) as pipeline:
        pipeline.wait_for("started")
        for number in range(20):
            commit(topics, f"before-{number:02}", number % 2)
        wait_until(lambda: len(topics.bodies(real)) == 20, what="finals")
        small_disk.fill()
        for number in range(20):
            commit(topics, f"during-{number:02}", number % 2)
        assert pipeline.wait(120) == ENVIRONMENT
        assert "No space left" in error_of(pipeline)["message"]

        pipeline.settings = replace(settings, check_max=4)
        pipeline.start()
        assert pipeline.wait(120) == ENVIRONMENT

        small_disk.make_room()
        pipeline.start()
        pipeline.wait_for("started")
        wait_until(lambda: len(topics.bodies(real)) >= 40, 180, "the rest")
        assert pipeline.terminate() == 0
    assert topics.bodies(real) == [
        f"{when}-{number:02}" for when in ("before", "during") for number in range(20)
    ]


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_broker_that_comes_back_soon_is_waited_for(tmp_path: Path) -> None:
    """Longer ones end the job with exit code 3; how that goes is in docs/operating/bad-days.md."""
    with EmbeddedBroker(tmp_path / "broker", jvm_options=QUICK_START) as own:
        topics = Topics(own.bootstrap_servers, "outage-")
        real = f"{topics.prefix}orders"
        settings = topics.settings(tmp_path / "checkpoint")
        topics.create(settings, [real], ["g"])
        with make(settings, tmp_path / "run") as pipeline:
            pipeline.wait_for("started")
            for number in range(20):
                commit(topics, f"before-{number:02}", number % 2)
            wait_until(lambda: len(topics.bodies(real)) == 20, 120, "finals")
            own.kill()
            # The outage is the input here: there is nothing to wait for.
            time.sleep(OUTAGE_S)
            own.start()
            for number in range(20):
                commit(topics, f"after-{number:02}", number % 2)
            wait_until(lambda: len(topics.bodies(real)) >= 40, 180, "the rest")
            assert pipeline.terminate() == 0
        assert topics.bodies(real) == [
            f"{when}-{number:02}" for when in ("after", "before") for number in range(20)
        ]
