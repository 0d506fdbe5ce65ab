"""The ledger beside the whole pipeline: each event once, whatever dies between Kafka and Delta."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from tests.integration.running import (
    COMMIT,
    ROLLBACK,
    Pipeline,
    Topics,
    wait_until,
)

from checkback.protocol.configuration import Settings


@pytest.fixture
def topics(bootstrap_servers: str, unique: str) -> Topics:
    return Topics(bootstrap_servers, unique)


def rows(ledger: str) -> list[dict[str, Any]]:
    """All rows, read by delta-rs: any Delta reader will do."""
    return DeltaTable(ledger).to_pyarrow_table().to_pylist()


def events(ledger: str, transaction_id: str) -> list[str]:
    return sorted(row["event"] for row in rows(ledger) if row["transaction_id"] == transaction_id)


def test_every_kind_of_event_appears_once(topics: Topics, tmp_path: Path) -> None:
    ledger = str(tmp_path / "ledger")
    settings = topics.settings(tmp_path / "checkpoint", ledger=ledger, check_max=2)
    real = f"{topics.prefix}orders"
    topics.create(settings, [real], ["g"])
    committed = topics.send_half(b"committed", real, partition=1)
    topics.send_op(committed, "committed", COMMIT)
    topics.send_op(committed, "committed", COMMIT)
    topics.send_op(committed, "committed", ROLLBACK)
    rolled_back = topics.send_half(b"rolled back", real)
    topics.send_op(rolled_back, "rolled back", ROLLBACK)
    silent = topics.send_half(b"silent", real)
    topics.send_raw(topics.names.half, b"no headers", None)
    topics.send_raw(topics.names.op, b"x", [("TAGS", b"d"), ("UNIQ_KEY", b"unreadable")])

    with Pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started")
        wait_until(
            lambda: topics.bodies(topics.names.discarded) == ["silent"], what=pipeline.errors()
        )
        pending = topics.send_half(
            b"pending", real, properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": "600"}
        )
        wait_until(lambda: events(ledger, "pending"), what="the pending one")
        assert pipeline.terminate() == 0

    found = rows(ledger)
    assert events(ledger, "committed") == ["committed", "prepared", "refused"]
    assert events(ledger, "rolled back") == ["prepared", "rolled_back"]
    assert events(ledger, "silent") == ["checked", "checked", "discarded", "prepared"]
    assert Counter(row["event"] for row in found) == {
        "prepared": 4, "checked": 2, "committed": 1, "rolled_back": 1, "discarded": 1, "refused": 3,
    }  # fmt: skip
