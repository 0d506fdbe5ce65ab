"""What a ledger says is pending: prepared, and without a verdict."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

PENDING_SQL: Final = """\
SELECT prepared.transaction_id, prepared.producer_group, prepared.real_topic,
       prepared.half_partition, prepared.half_offset, prepared.store_time,
       coalesce(asked.check_times, 0) AS check_times, asked.asked_time
FROM {table} AS prepared
LEFT JOIN (
  SELECT half_partition, half_offset,
         max(check_times) AS check_times, max(event_time) AS asked_time
  FROM {table} WHERE event = 'checked'
  GROUP BY half_partition, half_offset
) AS asked
  ON asked.half_partition = prepared.half_partition
  AND asked.half_offset = prepared.half_offset
WHERE prepared.event = 'prepared' AND NOT EXISTS (
  SELECT 1 FROM {table} AS settled
  WHERE settled.event IN ('committed', 'rolled_back', 'discarded')
    AND settled.half_partition = prepared.half_partition
    AND settled.half_offset = prepared.half_offset
)"""
"""Standard SQL, for Spark as for any other engine; ``{table}`` is the ledger."""

SPARK_SETTINGS: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""With them a Spark session knows Delta tables; Delta's own, the same everywhere."""


def session_settings(jars: Iterable[Path]) -> dict[str, str]:
    """Return the settings of a Spark session that reads and writes the ledger."""
    return {"spark.jars": ",".join(str(jar) for jar in jars), **SPARK_SETTINGS}


def view_statement(path: str, view: str) -> str:
    """Return the Spark statement that creates the view in the session's catalog."""
    table = f"delta.`{path}`"
    return f"CREATE OR REPLACE VIEW {view} AS\n{PENDING_SQL.format(table=table)}"
