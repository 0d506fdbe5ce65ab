"""The ledger beside the whole pipeline: each event once, whatever dies between Kafka and Delta."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from tests.integration.running import COMMIT, QUICK_JVM, ROLLBACK, Topics, wait_until
from tests.integration.shared_jvm import SharedJvm
from tests.unit.ledger_pending import read_pending
from tests.unit.test_ledger import OWNER, blobs

from checkback.checkpoints.local_files import LocalCheckpoint
from checkback.checkpoints.pending.pending_halves import PendingTable
from checkback.checkpoints.spark_files.state_rows import read_state
from checkback.sinks.ledger.maintenance import maintain
from checkback.sinks.ledger.rows import LedgerBatch
from checkback.sinks.ledger.table import DeltaLedger

ROOT = Path(__file__).parents[2]
LATE = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "600"}


def rows(ledger: Path) -> list[dict[str, Any]]:
    """All rows, read by delta-rs without any of our code."""
    found: list[dict[str, Any]] = DeltaTable(str(ledger)).to_pyarrow_table().to_pylist()
    return found


def events(ledger: Path, transaction_id: str) -> list[str]:
    return sorted(row["event"] for row in rows(ledger) if row["transaction_id"] == transaction_id)


def test_a_crash_between_kafka_and_delta_leaves_neither_gap_nor_double_row(
    topics: Topics, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    ledger, checkpoint = tmp_path / "ledger", tmp_path / "checkpoint"
    settings = topics.settings(checkpoint, ledger=str(ledger), check_max=2)
    real = f"{topics.prefix}orders"
    topics.create(settings, [real], ["g"])

    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started")
        # Before its first batch a run looks into the ledger: it may have been tried before.
        wait_until((checkpoint / "commits" / "0").exists, what="the first batch")
        log, aside = ledger / "_delta_log", ledger / "_aside"
        log.rename(aside)
        log.write_text("the table can't be written")
        # The op first: a batch of the half alone would end the job with nothing to commit.
        topics.send_op((0, 0), "first", COMMIT)
        assert topics.send_half(b"first", real) == (0, 0)
        assert pipeline.wait(150) == 3, pipeline.errors()
        assert str(ledger) in pipeline.errors()
    log.unlink()
    aside.rename(log)
    assert topics.bodies(real) == ["first"], "Kafka comes first"
    assert rows(ledger) == []

    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        wait_until(lambda: events(ledger, "first"), 150, what="the rows that were missing")
        send_one_of_each(topics, real)
        wait_until(lambda: "discarded" in events(ledger, "silent"), what="a discard")
        waiting = [topics.send_half(b"waiting", real, partition=1, properties=LATE)]
        waiting.append(topics.send_half(b"waiting too", real, properties=LATE))
        wait_until(lambda: events(ledger, "waiting too"), what="those that wait")
        assert pipeline.terminate() == 0

    assert topics.bodies(real) == ["committed", "first"]
    for name, expected in {
        "first": ["committed", "prepared"],
        "committed": ["committed", "prepared", "refused"],
        "rolled back": ["prepared", "rolled_back"],
        "silent": ["checked", "checked", "discarded", "prepared"],
    }.items():
        assert events(ledger, name) == expected
    found = rows(ledger)
    assert Counter(row["event"] for row in found) == {
        "prepared": 6, "checked": 2, "committed": 2, "rolled_back": 1, "discarded": 1, "refused": 3,
    }  # fmt: skip
    assert {row["real_topic"] for row in found if row["event"] == "prepared"} == {real}
    held = read_state(LocalCheckpoint(checkpoint))
    assert held is not None
    in_state, _ = PendingTable.of(held.pages).page("age", 0, 10)
    in_ledger = read_pending(DeltaLedger.open(str(ledger)))
    assert {(half.partition, half.offset) for half in in_state} == set(waiting)
    assert {(row["half_partition"], row["half_offset"]) for row in in_ledger} == set(waiting)
    stored = [row["store_time"] for row in in_ledger]
    assert stored == sorted(stored)  # two within a millisecond come by partition


def send_one_of_each(topics: Topics, real: str) -> None:
    committed = topics.send_half(b"committed", real, partition=1)
    topics.send_op(committed, "committed", COMMIT)
    topics.send_op(committed, "committed", COMMIT)
    topics.send_op(committed, "committed", ROLLBACK)
    rolled_back = topics.send_half(b"rolled back", real)
    topics.send_op(rolled_back, "rolled back", ROLLBACK)
    topics.send_half(b"silent", real)
    topics.send_raw(topics.names.half, b"no headers", None)
    topics.send_raw(topics.names.op, b"x", [("TAGS", b"d"), ("UNIQ_KEY", b"unreadable")])


@pytest.mark.nightly  # tests/unit/test_ledger.py asks the documented question by another engine
def test_spark_and_delta_rs_read_and_write_one_ledger(tmp_path: Path) -> None:
    """Spark runs what docs/ledger.md shows; between its reads delta-rs writes as the pipeline."""
    path = tmp_path / "ledger"
    today = datetime.now(UTC).replace(minute=0)
    ledger = DeltaLedger.open_or_create(str(path), OWNER)
    ledger.append(LedgerBatch("q", 0), blobs(("prepared", 0), ("committed", 0)))
    new = blobs(("prepared", 1), ("prepared", 2), ("prepared", 3), at=today)
    ledger.append(LedgerBatch("q", 1), new)
    ledger.append(LedgerBatch("q", 2), blobs(("committed", 1), ("checked", 2), at=today))

    found = run_documented(path, tmp_path)

    assert found == {
        "first": [["id-2", 1], ["id-3", 0]],
        # The documented DELETE dropped the old day, OPTIMIZE left one file of a day.
        "offsets": [1, 1, 2, 2, 3],
        "files": 1,
        "replayed": False,
        "appended": True,
        "then": [["id-3", 0]],
        "operations": ["WRITE", "OPTIMIZE", "DELETE", "WRITE", "WRITE", "WRITE"],
    }
    after = DeltaLedger.open(str(path))
    maintain(after, 168)
    assert [row["transaction_id"] for row in read_pending(after)] == ["id-3"]


def run_documented(ledger: Path, folder: Path) -> dict[str, Any]:
    """Run what docs/ledger.md shows of Spark over a ledger, then the rest of SPARK_STORY."""
    text = (ROOT / "docs" / "ledger.md").read_text("utf-8")
    section = text.split("## From Spark\n")[1].split("\n## ")[0]
    section = section.replace("/data/ledger", str(ledger))
    [session] = re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    [statements] = re.findall(r"^```sql\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    search = [str(Path(sys.executable).parent), os.environ["PATH"]]
    packages = [os.environ.get("PYTHONPATH", ""), str(ROOT)]
    environment = {
        **os.environ,
        "PATH": os.pathsep.join(search),
        "PYTHONPATH": os.pathsep.join(filter(None, packages)),
        "PYSPARK_SUBMIT_ARGS": SMALL_SPARK,
    }
    ran = subprocess.run(
        [sys.executable, "-c", session + SPARK_STORY, statements],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3_000:]
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


SMALL_SPARK = (
    f"--master local[1] --driver-java-options '{QUICK_JVM}' --conf spark.ui.enabled=false "
    "--conf spark.driver.host=127.0.0.1 --conf spark.sql.shuffle.partitions=1 "
    "--conf spark.databricks.delta.snapshotPartitions=1 pyspark-shell"
)
SPARK_STORY = """
import sys
from checkback.sinks.ledger.rows import LedgerBatch
from checkback.sinks.ledger.rows import LedgerBatch
from checkback.sinks.ledger.table import DeltaLedger
from tests.unit.ledger_pending import documented_sql
from tests.unit.test_ledger import blobs, offsets

statement = documented_sql().replace("FROM ledger", f"FROM delta.`{LEDGER}`")

def pending():
    return [[row.transaction_id, row.check_times] for row in spark.sql(
        f"SELECT * FROM ({statement}) ORDER BY half_offset").collect()]

found = {"first": pending()}
for one in filter(str.strip, sys.argv[1].split(";")):
    spark.sql(one).collect()
ledger = DeltaLedger.open(LEDGER)
found["offsets"] = offsets(LEDGER)
found["files"] = len(ledger.table.file_uris())
found["replayed"] = ledger.append(LedgerBatch("q", 2), blobs(("committed", 1)))
found["appended"] = ledger.append(LedgerBatch("q", 3), blobs(("committed", 2)))
found["then"] = pending()
history = DeltaTable.forPath(spark, LEDGER).history().collect()
found["operations"] = [row.operation for row in history if row.version > 0]
print(json.dumps(found))
"""
