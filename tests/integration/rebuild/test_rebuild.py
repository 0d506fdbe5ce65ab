"""A lost or damaged checkpoint is rebuilt, and the pipeline goes on as if nothing had happened."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_END, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession
from tests.integration.relay.relaying import relay_process
from tests.integration.running import (
    COMMAND,
    COMMIT,
    ROLLBACK,
    Pipeline,
    Topics,
    deployed,
    wait_until,
)
from tests.integration.shared_jvm import SharedJvm
from tests.integration.sinking import delete_topic

from checkback.deploy.settings import write_settings
from checkback.operations.rebuild.rebuild import Rebuild
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import CheckpointError
from checkback.protocol.properties import text_value
from checkback.state import mark_key

SLOW_S = 240.0
"""A busy machine takes minutes for what a quiet one does in seconds; waiting ends by itself."""
NEVER_ASKED = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "3600"}


def start_rebuild(
    settings: Settings, folder: Path, *options: str, jvm: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    config = folder / "rebuild.toml"
    write_settings(config, settings)
    command = [COMMAND, "checkpoint", "rebuild", "--config", str(config), "--output", "json"]
    return subprocess.Popen(
        [*command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **(jvm or {})},
    )


def rebuild(
    settings: Settings, folder: Path, *options: str, jvm: Mapping[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    """Run the command to its end; return exit code and JSON."""
    process = start_rebuild(settings, folder, *options, jvm=jvm)
    told, complained = process.communicate(timeout=2 * SLOW_S)
    documents = [line for line in (told + complained).splitlines() if line.startswith("{")]
    assert documents, complained
    return process.returncode, json.loads(documents[-1])


def body(message: Message) -> str:
    return (message.value() or b"").decode()


def check_times(topics: Topics, group: str, name: str) -> list[str | None]:
    return [
        text_value(message.headers() or [], "TRANSACTION_CHECK_TIMES")
        for message in topics.read(topics.names.check(group))
        if body(message) == name
    ]


class Feeder:
    """Sends transactions, and knows what has to come of them."""

    def __init__(self, topics: Topics, real: str) -> None:
        self.topics, self.real = topics, real
        self.committed: list[str] = []

    def send(self, names: list[str]) -> list[tuple[int, int]]:
        """Every fifth is rolled back, the others are committed."""
        places = []
        for number, name in enumerate(names):
            at = self.topics.send_half(name.encode(), self.real, partition=number % 2)
            self.topics.send_op(at, name, COMMIT if number % 5 else ROLLBACK)
            places.append(at)
        self.committed += [name for number, name in enumerate(names) if number % 5]
        return places

    def commit_later(self, name: str, **half: Any) -> tuple[int, int]:
        self.committed.append(name)
        return self.topics.send_half(name.encode(), self.real, **half)


def scribble(topics: Topics) -> None:
    """Write what a stranger might, where only the pipeline writes."""
    for value, key in ((b"hello", None), (b"\x01", mark_key(0, 0)), (None, b"0:0")):
        topics.send_raw(topics.names.settled, value, None, key=key)


def kill_in_its_first_batch(process: subprocess.Popen[str], checkpoint: Path) -> None:
    """Kill a rebuild once a state partition's changes are written.

    That is once its sink has all outcomes, and before it writes.
    """
    wait_until(
        lambda: [*checkpoint.glob("state/0/*/1.changelog")] or process.poll() is not None,
        SLOW_S,
        "the first batch",
    )
    assert process.poll() is None, process.communicate()
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)


@pytest.mark.timeout(600)
def test_a_checkpoint_without_its_state_is_rebuilt_from_the_topics(
    topics: Topics, tmp_path: Path, spark: SparkSession, shared_jvm: SharedJvm
) -> None:
    names, checkpoint = topics.names, tmp_path / "checkpoint"
    settings, real = deployed(topics, tmp_path, check_interval_ms=1_000, batch_events_max=400)
    feeder = Feeder(topics, real)
    pipeline = Pipeline(settings, tmp_path)
    pipeline.start()
    pipeline.wait_for("started", SLOW_S)
    early = feeder.send([f"early-{number:02}" for number in range(20)])
    waiting = feeder.commit_later("long", properties=NEVER_ASKED)
    unread = feeder.commit_later("unread", properties=NEVER_ASKED, partition=1)
    given_up = topics.send_half(b"given up", real)
    wait_until(lambda: topics.bodies(names.discarded) == ["given up"], SLOW_S, "a discard")
    topics.send_half(b"asked", real, partition=1)
    topics.send_half(b"nobody's", real, group="nobody")
    wait_until(lambda: "2" in check_times(topics, "g", "asked"), SLOW_S, "a second check")
    feeder.send([f"burst-{number:03}" for number in range(150)])
    pipeline.kill()

    shutil.rmtree(checkpoint / "state")
    scribble(topics)
    topics.send_op(unread, "unread", COMMIT)
    topics.send_op(early[1], "early-01", ROLLBACK)
    topics.send_op(given_up, "given up", COMMIT)
    feeder.send([f"down-{number:02}" for number in range(10)])
    kill_in_its_first_batch(start_rebuild(settings, tmp_path, "--yes"), checkpoint)
    (replaced,) = tmp_path.glob("checkpoint.replaced-*")
    assert (replaced / "checkback" / "identity.json").exists()

    with shared_jvm.lent() as jvm:
        code, report = rebuild(settings, tmp_path, "--yes", jvm=jvm)
    assert (code, report["how"]) == (0, "from topics"), report
    assert report["moved_to"] == ""
    assert report["counts"]["unknown"] == report["counts"]["foreign"] == 0
    assert Rebuild(settings, [], is_certain=True).run_in(spark).how == "nothing"
    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started", SLOW_S)
        topics.send_op(waiting, "long", COMMIT)
        feeder.send([f"late-{number:02}" for number in range(10)])
        wait_until(lambda: set(topics.bodies(real)) >= set(feeder.committed), SLOW_S, "all finals")
        wait_until(lambda: "asked" in topics.bodies(names.discarded), SLOW_S, "the last discard")
        assert pipeline.terminate() == 0
    assert topics.bodies(real) == sorted(feeder.committed)
    assert topics.bodies(names.discarded) == ["asked", "given up"]
    assert check_times(topics, "g", "asked") == ["1", "2", "3"]
    assert check_times(topics, "g", "given up") == ["1", "2", "3"]
    assert topics.reasons() == ["COMMIT_AFTER_DISCARD", "ROLLBACK_AFTER_COMMIT"]


@pytest.mark.nightly  # tests/spark/test_rebuild_report.py
@pytest.mark.timeout(600)
def test_a_rebuild_that_refuses_changes_nothing(
    topics: Topics, tmp_path: Path, spark: SparkSession, shared_jvm: SharedJvm
) -> None:
    """It had ended the old query for good before it refused, and moved the checkpoint away."""
    settings, real = deployed(topics, tmp_path, trigger_interval_ms=500)
    feeder = Feeder(topics, real)
    feeder.send([f"first-{number}" for number in range(10)])

    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started", SLOW_S)
        wait_until(lambda: len(topics.bodies(real)) == 8, SLOW_S, "finals")
        with pytest.raises(CheckpointError, match="still runs"):
            Rebuild(settings, [], is_certain=True, from_topics=True).run_in(spark)
        assert pipeline.terminate() == 0
    admin = AdminClient(dict(topics.connection))
    marks = [TopicPartition(topics.names.settled, number, OFFSET_END) for number in range(2)]
    for deleted in admin.delete_records(marks).values():
        deleted.result()
    before = sorted(tmp_path.glob("checkpoint*/**/*"))
    with shared_jvm.lent() as jvm:
        code, error = rebuild(settings, tmp_path, "--yes", "--from-topics", jvm=jvm)
    assert (code, error["error"]["fields"]["unknown"]) == (4, 10), error
    assert sorted(tmp_path.glob("checkpoint*/**/*")) == before

    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started", SLOW_S)
        feeder.send(["rolled back", "last"])
        wait_until(lambda: "last" in topics.bodies(real), SLOW_S, "the last final")
        assert pipeline.terminate() == 0
    assert topics.bodies(real) == sorted(feeder.committed)
    assert topics.reasons() == []


@pytest.mark.nightly  # test_preflight.py refuses, tests/spark/test_rebuild_query.py rebuilds
@pytest.mark.timeout(600)
@pytest.mark.parametrize("relay", [False, True])
def test_after_the_op_topic_was_recreated_every_half_that_waits_is_asked_about(
    topics: Topics, tmp_path: Path, shared_jvm: SharedJvm, *, relay: bool
) -> None:
    """Start and rebuild both refused: nothing led out. With a relay, new ops were dropped."""
    names = topics.names
    settings, real = deployed(topics, tmp_path, trigger_interval_ms=500, relay=relay)
    relays = [relay_process(settings, tmp_path / f"relay-{number}") for number in range(2 * relay)]
    feeder = Feeder(topics, real)
    with shared_jvm.pipeline(settings, tmp_path) as pipeline, ExitStack() as beside:
        pipeline.wait_for("started", SLOW_S)
        for one in relays[:1]:
            beside.enter_context(one).wait_for("started", SLOW_S)
        feeder.send(["done-0", "done-1"])
        wait_until(lambda: topics.bodies(real) == ["done-1"], SLOW_S, "a final")
        waiting = [feeder.commit_later(name) for name in ("waits", "unread")]
        wait_until(lambda: "1" in check_times(topics, "g", "unread"), SLOW_S, "a check")
        assert pipeline.terminate() == 0
    topics.send_op(waiting[1], "unread", COMMIT)
    delete_topic(topics.connection, names.op)
    topics.create(settings, [real], ["g"])

    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        assert pipeline.wait(SLOW_S) == CheckpointError.exit_code
        assert "op_topic_id" in pipeline.errors()
        assert "Run `checkback checkpoint rebuild`" in pipeline.errors()
    with shared_jvm.lent() as jvm:
        code, told = rebuild(settings, tmp_path, "--yes", jvm=jvm)
    assert code == 0, told
    assert "recreated" in {one["code"] for one in told["problems"]}
    with shared_jvm.pipeline(settings, tmp_path) as pipeline, ExitStack() as beside:
        pipeline.wait_for("started", SLOW_S)
        for one in relays[1:]:
            beside.enter_context(one).wait_for("started", SLOW_S)
        for name, place in zip(("waits", "unread"), waiting, strict=True):
            wait_until(lambda: "2" in check_times(topics, "g", name), SLOW_S, "a check")  # noqa: B023
            topics.send_op(place, name, COMMIT)
        wait_until(lambda: len(topics.bodies(real)) == 3, SLOW_S, "finals")
        assert pipeline.terminate() == 0
    assert topics.bodies(real) == sorted(feeder.committed)
    assert topics.reasons() == []


@pytest.mark.nightly  # three starts of Spark
@pytest.mark.timeout(600)
def test_records_that_are_gone_unread_end_the_job_and_a_rebuild_goes_on_without_them(
    topics: Topics, tmp_path: Path
) -> None:
    settings, real = deployed(topics, tmp_path)

    def commit(name: str) -> int:
        partition, offset = topics.send_half(name.encode(), real)
        topics.send_op((partition, offset), name, COMMIT)
        return offset

    with Pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started", SLOW_S)
        commit("read")
        wait_until(lambda: topics.bodies(real) == ["read"], SLOW_S, "the first final")
        assert pipeline.terminate() == 0, pipeline.errors()
    commit("gone")
    kept = TopicPartition(topics.names.half, 0, commit("left"))
    admin = AdminClient(dict(topics.connection))
    [deleted] = admin.delete_records([kept]).values()
    deleted.result(30)

    with Pipeline(settings, tmp_path) as pipeline:
        assert pipeline.wait(SLOW_S) == CheckpointError.exit_code, pipeline.errors()
        assert "rebuild --from-topics" in pipeline.errors()
    code, told = rebuild(settings, tmp_path, "--from-topics", "--yes")

    assert code == 0, told
    assert told["counts"]["lost"] == 1
    assert topics.bodies(real) == ["left", "read"]
    with Pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started", SLOW_S)
        commit("after")
        wait_until(lambda: "after" in topics.bodies(real), SLOW_S, "the final after it")
        assert pipeline.terminate() == 0, pipeline.errors()
    assert topics.bodies(real) == ["after", "left", "read"]
