"""The job's side of the relay over a real broker: on, off, and what each batch believes."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.integration.rebuild.test_rebuild import rebuild
from tests.integration.relay.hand_relay import HandRelay
from tests.integration.running import COMMIT, Pipeline, Topics, wait_until
from tests.integration.shared_jvm import SharedJvm
from tests.integration.test_partition_growth import grow_half, sizes

from checkback.checkpoints.files import OUR_FOLDER
from checkback.checkpoints.store import CheckpointStore
from checkback.operations.checkpoint.repartition import repartition
from checkback.protocol.configuration import Settings
from checkback.protocol.decided import Closed, OpKind, Taken
from checkback.streaming.source.kafka_source import FILE


def now_ms() -> int:
    return int(time.time() * 1_000)


@dataclass
class Story:
    """A deployment whose relay a test moves by hand."""

    topics: Topics
    folder: Path
    shared_jvm: SharedJvm

    def __post_init__(self) -> None:
        self.own = self.topics.settings(
            self.folder / "checkpoint", application_id=self.topics.prefix
        )
        self.on = replace(self.own, relay=True, trigger_interval_ms=100)
        self.real = f"{self.topics.prefix}orders"
        self.topics.create(self.on, [self.real], ["g"])

    @contextmanager
    def job(self, settings: Settings) -> Iterator[Pipeline]:
        """Run the job until its ops are taken as the settings say, and to the end of the block."""
        with self.shared_jvm.pipeline(settings, self.folder) as pipeline:
            pipeline.wait_for("started")
            yield pipeline
            assert pipeline.terminate() == 0, pipeline.drain()

    def commit(self, body: bytes) -> None:
        half = self.topics.send_half(body, self.real)
        self.topics.send_op(half, body.decode(), COMMIT)

    def planned_ops(self) -> int:
        """Return up to which op of partition 0 the job has planned to read."""
        plans = [plan for plan in (self.folder / "checkpoint" / "offsets").iterdir()
                 if plan.name.isdigit()]  # fmt: skip
        newest = max(plans, key=lambda plan: int(plan.name)).read_text("utf-8")
        return int(json.loads(newest.splitlines()[-1])[self.topics.names.op]["0"])

    def wait_for(self, finals: Sequence[str]) -> None:
        wait_until(lambda: self.topics.bodies(self.real) == [*finals], what=f"finals {finals}")


def test_relays_take_the_ops_and_give_them_back(
    topics: Topics, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    """On over a checkpoint that never knew a relay, and off with ops in flight."""
    story = Story(topics, tmp_path, shared_jvm)
    relay = HandRelay(topics, topics.prefix)
    with story.job(story.own):
        story.commit(b"a")
        story.wait_for("a")
    with story.job(story.on):
        taken = relay.taken(0)
        assert (taken.ops_from, taken.halves_from) == (1, 1)
        relay.join()
        story.commit(b"b")
        relay.decide(OpKind.DELIVERED, floor=1)
        story.commit(b"c")
        relay.decide(OpKind.PASSED, floor=3)
        story.wait_for("abc")
        checked_and_discarded_by_marks(story, relay)
        story.commit(b"d")

    refused_while_alive(story, relay)
    relay.leave()
    # The relay stands at op 3, which is d's. The last batch may have been planned before d's op.
    closed = max(3, story.planned_ops())
    with story.job(story.own):
        story.wait_for("abcd")
        found = [note.ops_from for note in relay.notes(0) if isinstance(note, Closed)]
        assert found == [closed]
        story.commit(b"e")
        story.wait_for("abcde")
    assert topics.reasons() == []


def checked_and_discarded_by_marks(story: Story, relay: HandRelay) -> None:
    """Rule 8: time goes on by the marks, and the floor holds."""
    topics, checks = story.topics, story.topics.names.check("g")
    silent = topics.send_half(b"silent", story.real)
    time.sleep(4)
    assert topics.bodies(checks) == []  # no mark has said a time
    relay.decide(OpKind.PASSED, floor=silent[1], until_ms=now_ms() + 60_000)
    wait_until(lambda: "silent" in topics.bodies(checks), what="a check")
    time.sleep(6)
    assert topics.bodies(topics.names.discarded) == []
    relay.decide(OpKind.PASSED, floor=silent[1] + 1, until_ms=now_ms() + 120_000)
    wait_until(lambda: topics.bodies(topics.names.discarded) == ["silent"], what="a discard")


def refused_while_alive(story: Story, relay: HandRelay) -> None:
    """A start that is refused counts as no failed try of the batch that was begun."""
    relay.member.poll(0)
    checkpoint = story.folder / "checkpoint"
    counted = checkpoint / OUR_FOLDER / FILE
    before = counted.read_text() if counted.exists() else ""
    newest = max(checkpoint.glob("commits/[0-9]*"), key=lambda commit: int(commit.name))
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    newest.unlink()
    with story.shared_jvm.pipeline(story.own, story.folder) as pipeline:
        assert pipeline.wait() == 4
        assert "Stop every `checkback relay`" in pipeline.errors()
    assert (counted.read_text() if counted.exists() else "") == before


@pytest.mark.nightly  # tests/spark/test_rebuild_query.py has a rebuild by day
def test_a_rebuild_believes_what_relays_delivered(
    topics: Topics, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    """Also what no job had read; and the ops that relays took are not judged a second time."""
    story = Story(topics, tmp_path, shared_jvm)
    relay = HandRelay(topics, topics.prefix)
    with story.job(story.on):
        relay.join()
        story.commit(b"a")
        relay.decide(OpKind.DELIVERED)
        story.commit(b"b")
        relay.decide(OpKind.PASSED, floor=2)
        story.wait_for("ab")
    story.commit(b"c")
    relay.decide(OpKind.DELIVERED, floor=2)
    story.commit(b"d")
    shutil.rmtree(tmp_path / "checkpoint")

    with shared_jvm.lent() as jvm:
        code, report = rebuild(story.on, tmp_path, "--yes", jvm=jvm)
    assert code == 0, report
    assert topics.bodies(story.real) == [*"abc"]

    with story.job(story.on):
        story.commit(b"e")
        relay.decide(OpKind.PASSED, floor=3)
        story.wait_for("abcde")
    relay.leave()
    assert topics.reasons() == []


@pytest.mark.nightly
def test_a_partition_that_is_added_is_the_job_s_until_its_next_start(
    topics: Topics, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    story = Story(topics, tmp_path, shared_jvm)
    with story.job(story.on):
        grow_half(topics, 3)
        half = topics.send_half(b"a", story.real, partition=2)
        wait_until(lambda: len(sizes(topics)[topics.names.op]) == 3)
        # A client that looked before may not know the partition for minutes.
        Topics(topics.bootstrap_servers, topics.prefix).send_op(half, "a", COMMIT)
        story.wait_for("a")
    relay = HandRelay(topics, topics.prefix)
    assert [note for note in relay.notes(2) if isinstance(note, Taken)] == []
    with story.job(story.on):
        taken = relay.taken(2)
        assert (taken.ops_from, taken.halves_from) == (1, 1)
        relay.join()
        topics.send_op(topics.send_half(b"b", story.real, partition=2), "b", COMMIT)
        relay.decide(OpKind.DELIVERED, 2, floor=1)
        story.commit(b"c")
        relay.decide(OpKind.PASSED, floor=1)
        story.wait_for("abc")
    relay.leave()
    assert topics.reasons() == []


@pytest.mark.nightly
def test_after_a_repartition_relays_have_the_ops_as_before(
    topics: Topics, tmp_path: Path, shared_jvm: SharedJvm, spark: SparkSession
) -> None:
    story = Story(topics, tmp_path, shared_jvm)
    relay = HandRelay(topics, topics.prefix)
    with story.job(story.on):
        relay.join()
        story.commit(b"a")
        relay.decide(OpKind.DELIVERED, floor=1)
        story.commit(b"b")
        relay.decide(OpKind.PASSED, floor=2)
        story.wait_for("ab")
    store = CheckpointStore.of(spark, story.on.checkpoint)
    assert repartition(story.on, spark, store, 1).after == 1

    with story.job(replace(story.on, state_partitions=1)):
        taken = relay.taken(0)
        assert (taken.ops_from, taken.halves_from) == (0, 0)
        for body, kind in ((b"c", OpKind.DELIVERED), (b"d", OpKind.PASSED)):
            story.commit(body)
            relay.decide(kind, floor=2)
        story.wait_for("abcd")
    relay.leave()
    assert topics.reasons() == []
