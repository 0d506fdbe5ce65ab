"""The ledger beside the whole pipeline: each event once, whatever dies between Kafka and Delta."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from tests.integration.running import (
    COMMIT,
    QUICK_JVM,
    ROLLBACK,
    Pipeline,
    Topics,
    wait_until,
)

from checkback.checkpoints.folder import CheckpointFolder
from checkback.checkpoints.pending import read_pending_halves
from checkback.deploy.jars import ensure_jars
from checkback.sinks.ledger import DeltaLedger
from checkback.sinks.ledger_maintenance import maintain
from checkback.sinks.ledger_pending import read_pending, view_statement

LATE = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "600"}


@pytest.fixture
def topics(bootstrap_servers: str, unique: str) -> Topics:
    return Topics(bootstrap_servers, unique)


def rows(ledger: Path) -> list[dict[str, Any]]:
    """All rows, read by delta-rs without any of our code."""
    found: list[dict[str, Any]] = DeltaTable(str(ledger)).to_pyarrow_table().to_pylist()
    return found


def events(ledger: Path, transaction_id: str) -> list[str]:
    return sorted(row["event"] for row in rows(ledger) if row["transaction_id"] == transaction_id)


def test_every_kind_of_event_appears_once(
    topics: Topics, tmp_path: Path, spark: SparkSession
) -> None:
    ledger, checkpoint = tmp_path / "ledger", tmp_path / "checkpoint"
    settings = topics.settings(checkpoint, ledger=str(ledger), check_max=2)
    real = f"{topics.prefix}orders"
    topics.create(settings, [real], ["g"])
    committed = topics.send_half(b"committed", real, partition=1)
    topics.send_op(committed, "committed", COMMIT)
    topics.send_op(committed, "committed", COMMIT)
    topics.send_op(committed, "committed", ROLLBACK)
    rolled_back = topics.send_half(b"rolled back", real)
    topics.send_op(rolled_back, "rolled back", ROLLBACK)
    topics.send_half(b"silent", real)
    topics.send_raw(topics.names.half, b"no headers", None)
    topics.send_raw(topics.names.op, b"x", [("TAGS", b"d"), ("UNIQ_KEY", b"unreadable")])

    with Pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started")
        wait_until(lambda: "discarded" in events(ledger, "silent"), what="a discard")
        waiting = [topics.send_half(b"waiting", real, partition=1, properties=LATE)]
        waiting.append(topics.send_half(b"waiting too", real, properties=LATE))
        wait_until(lambda: events(ledger, "waiting too"), what="those that wait")
        assert pipeline.terminate() == 0

    assert events(ledger, "committed") == ["committed", "prepared", "refused"]
    assert events(ledger, "rolled back") == ["prepared", "rolled_back"]
    assert events(ledger, "silent") == ["checked", "checked", "discarded", "prepared"]
    found = rows(ledger)
    assert Counter(row["event"] for row in found) == {
        "prepared": 5, "checked": 2, "committed": 1, "rolled_back": 1, "discarded": 1, "refused": 3,
    }  # fmt: skip
    assert {row["real_topic"] for row in found if row["event"] == "prepared"} == {real}
    in_state = read_pending_halves(CheckpointFolder(spark, str(checkpoint)), most=10)
    in_ledger = read_pending(DeltaLedger.open(str(ledger)), 10)
    assert {(half.partition, half.offset) for half in in_state} == set(waiting)
    assert {(row["half_partition"], row["half_offset"]) for row in in_ledger} == set(waiting)
    stored = [row["store_time"] for row in in_ledger]
    assert stored == sorted(stored)  # two within a millisecond come by partition


def test_a_crash_between_kafka_and_delta_leaves_neither_gap_nor_double_row(
    topics: Topics, tmp_path: Path
) -> None:
    ledger, checkpoint = tmp_path / "ledger", tmp_path / "checkpoint"
    # A pause between batches, so that a kill finds the batch of before as the last one.
    settings = topics.settings(checkpoint, ledger=str(ledger), trigger_interval_ms=4_000)
    real = f"{topics.prefix}orders"
    topics.create(settings, [real], ["g"])
    pipeline = Pipeline(settings, tmp_path)

    pipeline.start()
    pipeline.wait_for("started")
    log, aside = ledger / "_delta_log", ledger / "_aside"
    log.rename(aside)
    log.write_text("the table can't be written")
    at = topics.send_half(b"first", real)
    topics.send_op(at, "first", COMMIT)
    assert pipeline.wait(150) == 3, pipeline.errors()
    assert str(ledger) in pipeline.errors()
    log.unlink()
    aside.rename(log)
    assert topics.bodies(real) == ["first"], "Kafka comes first"
    assert rows(ledger) == []

    pipeline.start()
    wait_until(lambda: events(ledger, "first"), 150, what="the rows that were missing")
    pipeline.kill()
    assert events(ledger, "first") == ["committed", "prepared"]
    forget_last_commit(checkpoint)

    with pipeline:
        pipeline.wait_for("started")
        maintain(DeltaLedger.open(str(ledger)), 168)
        at = topics.send_half(b"second", real)
        topics.send_op(at, "second", COMMIT)
        wait_until(lambda: events(ledger, "second"), 150, what="the rows of a later batch")
        assert pipeline.terminate() == 0

    assert events(ledger, "first") == ["committed", "prepared"]
    assert events(ledger, "second") == ["committed", "prepared"]
    assert topics.bodies(real) == ["first", "second"]


def forget_last_commit(checkpoint: Path) -> None:
    """Make Spark run its last batch again, as if it had died before it noted the end."""
    last = max(int(file.name) for file in (checkpoint / "offsets").iterdir() if file.name.isdigit())
    (checkpoint / "commits" / str(last)).unlink(missing_ok=True)
    (checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)


def test_spark_reads_it_and_makes_the_view(tmp_path: Path) -> None:
    from tests.unit.test_ledger import OWNER, blobs

    from checkback.sinks.ledger_rows import Batch

    ledger = DeltaLedger.open_or_create(str(tmp_path / "ledger"), OWNER)
    ledger.append(Batch("q", 0), blobs(("prepared", 1), ("prepared", 2), ("prepared", 3)))
    ledger.append(Batch("q", 1), blobs(("committed", 1), ("checked", 2)))
    maintain(ledger, 168)
    script = tmp_path / "reader.py"
    script.write_text(READER)
    jars = ",".join(str(jar) for jar in ensure_jars("spark") if jar.name.startswith("delta"))
    view = view_statement(ledger.table.table_uri, "waiting")

    ran = subprocess.run(
        [sys.executable, script, jars, QUICK_JVM, view, ledger.table.table_uri],
        cwd=tmp_path, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip

    assert ran.returncode == 0, ran.stderr[-3_000:]
    assert ran.stdout.splitlines() == ["2 appends", "5 rows", "2 asked 1", "3 asked 0"]


READER = """
import sys
from delta.tables import DeltaTable
from pyspark.sql import SparkSession
jars, options, view, ledger = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.jars", jars).config("spark.driver.extraJavaOptions", options)
    .config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .getOrCreate()
)
appended = DeltaTable.forPath(spark, ledger).history().where("operation = 'WRITE'")
print(appended.count(), "appends")
print(spark.read.format("delta").load(ledger).count(), "rows")
spark.sql(view)
for row in spark.sql("SELECT * FROM waiting ORDER BY half_offset").collect():
    print(row.half_offset, "asked", row.check_times)
"""
