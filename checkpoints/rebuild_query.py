"""The first batch of a rebuilt checkpoint: what the topics told becomes state, written by Spark.

No state can be put under applyInPandasWithState from outside (SPARK-40444). But a query is known by
its checkpoint and its stateful operator only, not by its source: so a query with the same operator
and sink, whose source is the restored rows, makes batch 0 as the pipeline would have made it. What
it leaves is an ordinary checkpoint; only the source's position in it is replaced by that of the
Kafka topics, from where the pipeline goes on with batch 1.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.state import GroupState

from checkback.checkpoints.rebuild_history import RESTORED_PAGE, RESTORED_SCHEMA
from checkback.protocol.errors import CheckpointError
from checkback.streaming.event_rows import events_in
from checkback.streaming.page_keys import HALF_PARTITIONS_MAX
from checkback.streaming.pages import (
    STATE_VERSION,
    CheckBudget,
    Frames,
    GroupFunction,
    PageSettings,
    advance_page,
)
from checkback.streaming.query import decided

BatchFunction = Callable[[DataFrame, int], None]
LINES_OF_A_PLAN: Final = 3
"""Version, metadata, and the position of the one source (OffsetSeqLog of Spark 4.2.0)."""


def run_first_batch(
    spark: SparkSession,
    rows: str,
    checkpoint: str,
    pages: PageSettings,
    write_batch: BatchFunction,
) -> None:
    """Run batch 0 over the restored rows.

    Args:
        spark: a session with the pipeline's settings.
        rows: path of the restored rows, as Parquet.
        checkpoint: the new checkpoint.
        pages: rules and sizes.
        write_batch: the pipeline's sink.

    Raises:
        StreamingQueryException: the batch failed; nothing of it counts but what is marked.
    """
    source = spark.readStream.schema(RESTORED_SCHEMA).parquet(rows)
    wanted = source.where(f"kind <> {RESTORED_PAGE} or blob is not null")
    # Marks of garbage may name any partition; no key is made for one that can't be.
    possible = wanted.where(f.col("partition").between(0, HALF_PARTITIONS_MAX - 1))
    outcomes = decided(pages.keys.put_on(possible), pages, restoring_function(pages))
    query = (
        outcomes.writeStream.outputMode("append")
        .option("checkpointLocation", checkpoint)
        # availableNow would never end: with timeouts Spark always sees one batch more to do.
        .trigger(once=True)
        .foreachBatch(write_batch)
        .start()
    )
    query.awaitTermination()


def restoring_function(settings: PageSettings) -> GroupFunction:
    """Return the function for applyInPandasWithState: the pipeline's, over restored pages."""
    budget = CheckBudget()

    def restore(key: tuple[Any, ...], frames: Frames, state: GroupState) -> Frames:
        rows = pd.concat(list(frames), ignore_index=True)
        is_page = rows["kind"] == RESTORED_PAGE
        for blob in rows.loc[is_page, "blob"]:
            state.update((STATE_VERSION, bytes(blob)))
        place = settings.keys.place_of(key)
        yield advance_page(settings, budget, place, events_in(rows[~is_page]), state)

    return restore


def plan_with_position(plan: str, ends: Mapping[str, Mapping[str, int]]) -> str:
    """Return the plan of batch 0 as if it had read the topics up to these ends.

    Args:
        plan: text of ``offsets/0``.
        ends: by topic and partition, the offset to go on from.

    Raises:
        CheckpointError: Spark wrote something else than expected.
    """
    lines = plan.split("\n")
    if len(lines) != LINES_OF_A_PLAN or not lines[-1].startswith("{"):
        raise CheckpointError(
            "Spark's plan of the first batch has a form that this version does not know.",
            remedy="Use the version of Spark that Checkback was made for.",
            lines=len(lines),
        )
    return "\n".join([*lines[:-1], json.dumps(ends, separators=(",", ":"))])
