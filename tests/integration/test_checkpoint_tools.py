"""Looking into a real checkpoint, mending its partitions, and telling lag tools how far it is."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner
from deltalake import CommitProperties, Transaction, write_deltalake
from pyspark.sql import SparkSession
from tests.integration.checkpoint_stage import (
    GROUP,
    HALF_PARTITIONS,
    PATIENCE_S,
    Stage,
    cut,
    cut_newest,
    empty,
    flip,
    wait_for_idle,
)
from tests.integration.running import COMMIT, ROLLBACK, Topics, wait_until
from tests.integration.shared_jvm import SharedJvm

from checkback.checkpoints.own_files.identity import CheckpointIdentity
from checkback.checkpoints.spark_files.state_rows import read_state
from checkback.checkpoints.store import CheckpointStore
from checkback.commands.shared.app import NOUNS, LazyGroup
from checkback.deploy.broker import EmbeddedBroker
from checkback.operations.checkpoint.inspect import inspect, state_figures
from checkback.operations.checkpoint.open import marker_settings, read_markers
from checkback.operations.checkpoint.repartition import repartition, rewrite_state
from checkback.operations.checkpoint.verify import verify, verify_files
from checkback.operations.transactions import pending as pending_transactions
from checkback.protocol.errors import CheckpointError, UsageError
from checkback.sinks.kafka.transaction.marker import Marker, MarkerStore
from checkback.sinks.kafka.transaction.producer import MarkedProducer
from checkback.sinks.ledger.table import transaction_name
from checkback.streaming.start.checkpoint_layout import fit_to_checkpoint

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def stage(
    broker: EmbeddedBroker,
    tmp_path_factory: pytest.TempPathFactory,
    spark: SparkSession,
    shared_jvm: SharedJvm,
) -> Stage:
    prefix, folder = f"t{uuid.uuid4().hex[:10]}-", tmp_path_factory.mktemp("tools")
    topics = Topics(broker.bootstrap_servers, prefix, HALF_PARTITIONS)
    settings = topics.settings(
        folder / "checkpoint",
        application_id=prefix.rstrip("-"),
        state_partitions=2,
        transaction_timeout_ms=500,
        check_interval_ms=2_000,
        check_max=1_000,
        trigger_interval_ms=500,
    )
    topics.create(settings, [f"{prefix}real"], [GROUP])
    stage = Stage(topics, settings, folder, f"{prefix}real", {}, {})
    for number in range(HALF_PARTITIONS):
        stage.half(f"asked-{number}", number)
        stage.half(f"committed-{number}", number)
        stage.op(f"committed-{number}", COMMIT)
    stage.half("rolled-back", 0)
    stage.op("rolled-back", ROLLBACK)
    with shared_jvm.pipeline(settings, folder) as pipeline:
        pipeline.wait_for("started", PATIENCE_S)
        wait_until(
            lambda: len(stage.checks()) == HALF_PARTITIONS, PATIENCE_S, what="a check of each"
        )
        # A batch that is missing leaves a hole only where there are others before it.
        wait_until(lambda: (stage.local().last_batch("commits") or 0) >= 3, what="four batches")
        wait_for_idle(stage)
        stage.seen_at_work = inspect(settings, stage.local()).as_data(0)
        with pytest.raises(CheckpointError, match="still runs"):
            repartition(settings, spark, stage.checkpoint(spark), 3)
        assert pipeline.terminate(PATIENCE_S) == 0, pipeline.errors()
    return stage


def copied(stage: Stage, spark: SparkSession, to: Path) -> CheckpointStore:
    shutil.copytree(stage.settings.checkpoint, to, dirs_exist_ok=True)
    return CheckpointStore.of(spark, str(to))


def committed(store: CheckpointStore) -> int:
    batch = store.last_batch("commits")
    assert batch is not None
    return batch


def test_a_pipeline_at_work_can_be_looked_into(stage: Stage) -> None:
    seen = stage.seen_at_work

    assert seen["problems"] == []
    assert seen["pending"] == HALF_PARTITIONS
    assert seen["lag"] == 0
    assert sum(one["pages"] for one in seen["state"]) == HALF_PARTITIONS
    assert all(one["file_bytes"] > 0 for one in seen["state"])
    assert sum(one["page_bytes"] for one in seen["state"]) > 0
    ends = {(one["topic"], one["partition"]): one["end"] for one in seen["positions"]}
    assert ends[stage.topics.names.half, 0] == 3
    assert ends[stage.topics.names.half, 1] == 2
    assert len(ends) == 3 * HALF_PARTITIONS  # halves, ops, feedback


def test_a_stopped_checkpoint_is_whole_and_so_are_its_markers(
    stage: Stage, spark: SparkSession
) -> None:
    found = verify_files(stage.settings, stage.checkpoint(spark))

    assert found.problems == ()
    assert found.whole_batch == found.committed_batch
    assert found.planned_batch == (found.committed_batch or 0) + 1  # a stop plans one more
    assert found.state_partitions == 2
    assert found.markers is not None
    assert found.markers.keys() == {0, 1}
    assert found.written_batch is not None
    assert found.written_batch <= (found.committed_batch or 0)


@pytest.mark.parametrize(
    ("damage", "code", "is_last_whole"),
    [
        (flip("offsets/{batch}"), "torn", False),
        (cut("commits/{batch}"), "torn", False),
        (cut("state/0/1/{version}.changelog"), "state", False),
        (cut_newest("checkback/terms"), "torn", True),
        (empty("state/0/0/_metadata/schema"), "torn", None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_damage_is_found_and_named(
    stage: Stage,
    spark: SparkSession,
    tmp_path: Path,
    damage: Callable[[Path, int], str],
    code: str,
    is_last_whole: bool | None,
) -> None:
    store = copied(stage, spark, tmp_path / "copy")
    last = committed(store)
    file = damage(Path(store.path), last)

    found = verify(store)

    assert code in {one.code for one in found.problems if one.file == file}
    assert all(one.remedy for one in found.problems)
    if is_last_whole is None:
        assert found.whole_batch is None
    else:
        assert (found.whole_batch == last) is is_last_whole


def test_a_start_over_a_torn_file_is_refused_and_names_it(
    stage: Stage, spark: SparkSession, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    store = copied(stage, spark, tmp_path / "copy")
    file = cut("commits/{batch}")(Path(store.path), committed(store))

    settings = replace(stage.settings, checkpoint=store.path)
    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        assert pipeline.wait(PATIENCE_S) == CheckpointError.exit_code, pipeline.errors()
        assert f"{file} is damaged" in pipeline.errors()


def test_the_command_says_what_is_wrong_without_a_broker(stage: Stage, tmp_path: Path) -> None:
    shutil.copytree(stage.settings.checkpoint, tmp_path / "copy")
    file = cut("checkback/identity.json")(tmp_path / "copy", 0)
    arguments = ["checkpoint", "verify", "--files-only", "--output", "json"]
    arguments += ["--checkpoint", str(tmp_path / "copy"), "--bootstrap-servers", "127.0.0.1:1"]
    arguments += ["--application-id", stage.settings.application_id]

    ran = CliRunner().invoke(LazyGroup(NOUNS), arguments, standalone_mode=False, obj=None)

    said = json.loads(ran.stdout)
    assert [one["file"] for one in said["problems"]] == [file]
    assert ran.return_value == 1


def test_an_older_copy_and_a_lost_marker_are_told_from_the_markers(
    stage: Stage, spark: SparkSession, tmp_path: Path
) -> None:
    store = copied(stage, spark, tmp_path / "copy")
    files = Path(store.path)
    for number in range(1, committed(store) + 2):
        for log in ("offsets", "commits"):
            (files / log / str(number)).unlink(missing_ok=True)
            (files / log / f".{number}.crc").unlink(missing_ok=True)
    settings = replace(stage.settings, checkpoint=store.path)

    found = verify_files(settings, store)

    assert {one.code for one in found.problems} == {"marker-ahead"}
    query = json.loads((files / "metadata").read_text())
    (files / "metadata").write_text(json.dumps({**query, "id": str(uuid.uuid4())}))
    (files / ".metadata.crc").unlink()
    found = verify_files(settings, store)
    assert [one.code for one in found.problems] == ["marker-missing", "marker-missing"]


def test_all_that_is_pending_is_listed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_transactions, "RECORDS_AT_ONCE", 1)

    found = pending_transactions.oldest_transactions(stage.settings, 2_000_000_000)

    rows = [transaction.as_data(0) for transaction in found]
    assert {row["transaction_id"] for row in rows} == {f"asked-{n}" for n in range(HALF_PARTITIONS)}
    assert {(row["group"], row["real_topic"]) for row in rows} == {(GROUP, stage.real)}
    assert all(int(row["check_times"]) >= 1 for row in rows)
    assert all(int(row["next_check_ms"]) > int(row["half_time_ms"]) for row in rows)
    assert [row["half_time_ms"] for row in rows] == sorted(row["half_time_ms"] for row in rows)


@pytest.mark.parametrize(
    "is_killed_inside_spark", [pytest.param(False, marks=pytest.mark.nightly), True]
)
def test_a_repartition_that_was_left_half_done_is_refused_until_it_is_ended(
    stage: Stage, spark: SparkSession, tmp_path: Path, is_killed_inside_spark: bool
) -> None:
    store = copied(stage, spark, tmp_path / "copy")
    settings = replace(stage.settings, checkpoint=store.path)
    plan = committed(store) + 1
    store.delete(f"offsets/{plan}")
    rewrite_state(spark, store, 1)
    if is_killed_inside_spark:
        store.delete(f"commits/{plan}")

    with pytest.raises(CheckpointError, match="from 2 to 1 state partitions was interrupted"):
        fit_to_checkpoint(settings, spark, store)
    with pytest.raises(CheckpointError, match="to 1 state partitions was interrupted"):
        repartition(settings, spark, store, 4)
    assert [one.code for one in verify(store).problems] == ["partitions"]

    done = repartition(settings, spark, store, 1)

    assert (done.before, done.after, done.batch_id, done.dropped_batch) == (2, 1, plan, None)
    assert verify(store).problems == ()
    fitted = fit_to_checkpoint(replace(settings, state_partitions=None), spark, store)
    assert fitted.state_partitions == 1
    held = read_state(store)
    assert held is not None
    assert sum(one.pending for one in state_figures(held.pages, 1)) == HALF_PARTITIONS


def test_a_batch_that_is_written_in_part_is_not_dropped(
    stage: Stage, spark: SparkSession, tmp_path: Path
) -> None:
    store = stage.checkpoint(spark)
    plan = committed(store) + 1
    identity = CheckpointIdentity.from_json(store.read_own("identity.json") or "")
    sink = marker_settings(stage.settings, store.query_id() or "", identity)
    true_marker = read_markers(sink, 2)[1]

    def move(next_batch: int) -> None:
        """Move the marker as a job does that writes this state partition and then dies."""
        held = MarkerStore(sink)
        epoch = held.read([1])[1].epoch
        held.close()
        writer = MarkedProducer(replace(sink, epoch=epoch), 1)
        writer.begin()
        writer.commit_marker(Marker(next_batch, 0, epoch))
        writer.close()

    move(plan + 1)
    with pytest.raises(CheckpointError, match="is written in part"):
        repartition(stage.settings, spark, store, 3)
    move(true_marker)
    # A batch that only brought halves has written nothing to Kafka, but rows to the ledger.
    ledger = str(tmp_path / "ledger")
    noted = CommitProperties(app_transactions=[Transaction(transaction_name(sink.query_id), plan)])
    rows = pa.Table.from_pylist([{"event": "prepared"}])
    write_deltalake(ledger, rows, commit_properties=noted)
    with pytest.raises(CheckpointError, match="is written in part"):
        repartition(replace(stage.settings, ledger=ledger), spark, store, 3)

    assert store.last_batch("offsets") == plan


def test_partitions_change_and_nothing_is_lost_doubled_or_forgotten(
    stage: Stage, spark: SparkSession, shared_jvm: SharedJvm
) -> None:
    finals = sorted(f"committed-{number}" for number in range(HALF_PARTITIONS))
    assert stage.topics.bodies(stage.real) == finals
    stage.half("sent-meanwhile", 2)
    stage.op("asked-0", COMMIT)  # both wait on their topics while the partitions change

    done = repartition(stage.settings, spark, stage.checkpoint(spark), 3)

    assert (done.before, done.after, done.settled_partitions_added) == (2, 3, 1)
    assert done.dropped_batch == done.batch_id  # planned by the stop, never begun
    with pytest.raises(UsageError, match="already has 3 state partitions"):
        repartition(stage.settings, spark, stage.checkpoint(spark), 3)
    expected = sorted([*finals, "asked-0", "sent-meanwhile"])
    before = len(stage.checks()["asked-1"])
    # Nobody sets the number: the run has to take the checkpoint's.
    settings = replace(stage.settings, state_partitions=None)
    with shared_jvm.pipeline(settings, stage.folder) as pipeline:
        assert pipeline.wait_for("started", PATIENCE_S)["state_partitions"] == 3
        stage.op("sent-meanwhile", COMMIT)
        wait_until(
            lambda: stage.topics.bodies(stage.real) == expected, PATIENCE_S, what="the finals"
        )
        wait_until(
            lambda: len(stage.checks()["asked-1"]) > before, PATIENCE_S, what="a later check"
        )
        assert pipeline.terminate(PATIENCE_S) == 0, pipeline.errors()
    found = verify_files(stage.settings, stage.checkpoint(spark))
    assert found.problems == ()
    assert found.state_partitions == 3
    for counts in stage.checks().values():
        assert counts == list(range(1, len(counts) + 1))
    assert stage.topics.reasons() == []
