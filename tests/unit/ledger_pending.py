"""Runs the ledger's SQL for what is pending by delta-rs, as a user's engine would."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from deltalake import QueryBuilder

from checkback.sinks.ledger.table import DeltaLedger
from checkback.sinks.ledger.view import PENDING_SQL


def read_pending(ledger: DeltaLedger) -> list[dict[str, Any]]:
    """Return the pending transactions, oldest first, by the names of the view's columns."""
    statement = f"{PENDING_SQL.format(table='ledger')} ORDER BY store_time, prepared.half_partition, prepared.half_offset"  # noqa: E501
    found = QueryBuilder().register("ledger", ledger.table).execute(statement).read_all()
    rows: list[dict[str, Any]] = pa.table(found).to_pylist()
    return rows
