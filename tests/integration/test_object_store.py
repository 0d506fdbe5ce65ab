"""A checkpoint and a ledger on a real S3 server, reached by S3A and by delta-rs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.integration.running import COMMIT, Pipeline, Topics, wait_until
from tests.integration.s3 import BUCKET, S3Server, s3_server
from tests.integration.two_writers import refused_second

from checkback.checkpoints.store import CheckpointStore
from checkback.operations.checkpoint.open import open_files
from checkback.protocol.configuration import Settings
from checkback.streaming.spark.java_classes import add_to_driver, classes_jar
from checkback.streaming.spark.s3_files import CONDITIONAL_MANAGER

CHECKPOINT = f"s3a://{BUCKET}/checkpoint"
LEDGER = f"s3a://{BUCKET}/ledger"


@pytest.fixture
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.mark.nightly
def test_a_killed_driver_and_a_second_one_write_each_final_once(
    bootstrap_servers: str, unique: str, tmp_path: Path, s3: S3Server
) -> None:
    topics = Topics(bootstrap_servers, unique)
    real = f"{unique}orders"
    settings = topics.settings(CHECKPOINT, ledger=LEDGER, log_file="-")
    settings = replace(settings, spark={**settings.spark, **s3.spark})
    topics.create(settings, [real], ["g"])
    sent: list[str] = []

    def commit_some() -> None:
        for number in range(len(sent), len(sent) + 20):
            at = topics.send_half(f"{number:02}".encode(), real, partition=number % 2)
            topics.send_op(at, f"{number:02}", COMMIT)
            sent.append(f"{number:02}")

    def all_there() -> bool:
        return len(topics.bodies(real)) >= len(sent)

    with Pipeline(settings, tmp_path / "first", s3.environment) as first:
        first.wait_for("started")
        commit_some()
        wait_until(all_there, what="finals of the first driver")
        commit_some()
        first.kill()
        first.start()
        first.wait_for("started")
        wait_until(all_there, what="finals after the kill")
        taken = per_batch(first, s3, commit_some)
        wait_until(all_there, what="finals meanwhile")
        with Pipeline(settings, tmp_path / "second", s3.environment) as second:
            second.wait_for("started")
            commit_some()
            assert first.wait(60) == 4, first.errors()
            wait_until(all_there, what="finals of the second driver")
            assert second.terminate() == 0, second.errors()

    assert topics.bodies(real) == sorted(sent)
    assert [key for key in s3.keys("checkpoint/") if ".tmp" in key or ".draft" in key] == []
    assert s3.keys("ledger/_delta_log/")
    # docs/operating/deploy.md names these; a rename would be a COPY.
    assert taken["PUT"] + taken["PUT-IF-NEW"] <= 12, taken
    assert taken["LIST"] + taken["GET"] + taken["HEAD"] <= 40, taken
    assert "COPY" not in taken


def per_batch(
    pipeline: Pipeline, s3: S3Server, commit_some: Callable[[], None]
) -> dict[str, float]:
    """Return the requests that one batch with transactions takes, by kind."""

    def has_batches(first: int) -> bool:
        commit_some()
        pipeline.wait_for("progress")
        return (pipeline.events[-1]["batch_id"] or 0) > first

    wait_until(lambda: has_batches(0), what="a batch")
    begin, before = pipeline.events[-1]["batch_id"], Counter(s3.requests)
    wait_until(lambda: has_batches(begin + 3), what="batches")
    batches = pipeline.events[-1]["batch_id"] - begin
    taken = {kind: (s3.requests[kind] - before[kind]) / batches for kind in s3.requests}
    print(f"{batches} batches, requests for each: {taken}")  # figures of docs/operating/deploy.md
    return taken


def test_of_two_writers_of_a_file_that_must_be_new_one_is_refused(
    s3: S3Server, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = Settings(checkpoint=CHECKPOINT, spark=s3.spark)
    with open_files(settings) as store:
        assert store.last_batch("offsets") is None
        # Eight lines of Spark's came before those of `verify` or `doctor`.
        assert capfd.readouterr() == ("", "")
        assert isinstance(store, CheckpointStore)
        made = [store.create_own("rules/1.json", text) for text in ("first", "second")]
        store.replace_own("identity.json", "old")
        store.replace_own("identity.json", "new")

        path = store.jvm.org.apache.hadoop.fs.Path(f"{CHECKPOINT}/offsets/7")
        manager = file_manager(store)
        refused_second(manager, path).cancel()
        cancelled = manager.createAtomic(store.jvm.org.apache.hadoop.fs.Path(f"{path}0"), True)
        cancelled.write(bytearray(b"half a plan"))
        cancelled.cancel()

        assert made == [True, False]
        assert store.read_own("rules/1.json") == "first"
        assert store.read_own("identity.json") == "new"
        assert store.read("offsets/7") == b"ours"
    assert s3.refused == [f"/{BUCKET}/checkpoint/offsets/7"]
    assert sorted(s3.keys("checkpoint/")) == [
        "checkpoint/checkback/identity.json",
        "checkpoint/checkback/rules/1.json",
        "checkpoint/offsets/7",
    ]


def file_manager(store: CheckpointStore) -> Any:
    """Return the manager as Spark makes one for the checkpoint."""
    jvm = store.jvm
    loader = jvm.Thread.currentThread().getContextClassLoader()
    add_to_driver(jvm, classes_jar(jvm))
    kind = loader.loadClass(CONDITIONAL_MANAGER)
    root = jvm.org.apache.hadoop.fs.Path(CHECKPOINT)
    kinds = to_array(jvm, kind.getClass(), root.getClass(), jvm_configuration(jvm))
    return kind.getConstructor(kinds).newInstance(
        to_array(jvm, jvm.java.lang.Object().getClass(), root, store.configuration)
    )


def jvm_configuration(jvm: Any) -> Any:
    """Return the class of Hadoop's settings, of which Spark's are a kind."""
    return jvm.org.apache.hadoop.conf.Configuration(False).getClass()


def to_array(jvm: Any, kind: Any, *values: Any) -> Any:
    """Return a Java array."""
    made = jvm.java.lang.reflect.Array.newInstance(kind, len(values))
    for at, value in enumerate(values):
        made[at] = value
    return made
