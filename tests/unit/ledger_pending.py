"""Runs the ledger's SQL for what is pending by delta-rs, as a user's engine would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import QueryBuilder

from checkback.sinks.ledger.table import DeltaLedger


def documented_sql() -> str:
    """Return the statement in docs/ledger.md that finds what is pending."""
    text = (Path(__file__).parents[2] / "docs" / "ledger.md").read_text("utf-8")
    section = text.split("## What is pending\n")[1]
    return section.split("```sql\n")[1].split("```")[0]


def read_pending(ledger: DeltaLedger) -> list[dict[str, Any]]:
    """Return the pending transactions, oldest first, by the names of the view's columns."""
    statement = (
        f"{documented_sql()} ORDER BY store_time, prepared.half_partition, prepared.half_offset"
    )
    found = QueryBuilder().register("ledger", ledger.table).execute(statement).read_all()
    rows: list[dict[str, Any]] = pa.table(found).to_pylist()
    return rows
