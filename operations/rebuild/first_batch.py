"""The first batch of a rebuilt checkpoint: Spark writes the restored pages as state.

Nothing can give applyInPandasWithState an initial state (SPARK-40444). But Spark identifies a query
by its checkpoint and its stateful operator, not by its source. So this module runs a query with the
same operator and sink, and with the restored rows as source. That query makes batch 0 as the
pipeline makes batches, and leaves an ordinary checkpoint. Then the module replaces the
source's position in the plan with the positions on the Kafka topics, and the pipeline continues
there with batch 1.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.state import GroupState

from checkback.checkpoints.own_files.relay_terms import RelayTerms, Spans
from checkback.operations.rebuild.topic_pages import RESTORED_PAGE, RESTORED_SCHEMA
from checkback.state import Rules
from checkback.streaming.batch.terms import TaskTerms
from checkback.streaming.job.query import decided
from checkback.streaming.job.query_failure import BatchFunction
from checkback.streaming.pages.event_columns import events_in
from checkback.streaming.pages.page_function import (
    STATE_VERSION,
    CheckBudget,
    Frames,
    GroupFunction,
    PageSettings,
    advance_page,
)
from checkback.streaming.pages.page_key import HALF_PARTITIONS_MAX


def run_first_batch(
    spark: SparkSession,
    rows: str,
    checkpoint: str,
    pages: PageSettings,
    rules: Rules,
    write_batch: BatchFunction,
    relayed: Spans | None = None,
) -> None:
    """Run batch 0 over the restored rows.

    Args:
        rows: path of the restored rows, as Parquet.
        relayed: what relays took; None without a decided topic.

    Raises:
        StreamingQueryException: the batch failed. Only output with a settled mark counts.
    """
    source = spark.readStream.schema(RESTORED_SCHEMA).parquet(rows)
    wanted = source.where(f"kind <> {RESTORED_PAGE} or blob is not null")
    # Marks of malformed records may name any partition; an impossible one gets no key.
    possible = wanted.where(f.col("partition").between(0, HALF_PARTITIONS_MAX - 1))
    outcomes = decided(pages.keys.put_on(possible), restoring_function(pages, rules, relayed))
    query = (
        outcomes.writeStream.outputMode("append")
        .option("checkpointLocation", checkpoint)
        # availableNow would never end: with timeouts Spark always plans one more batch.
        .trigger(once=True)
        .foreachBatch(write_batch)
        .start()
    )
    query.awaitTermination()


def restoring_function(
    settings: PageSettings, rules: Rules, relayed: Spans | None = None
) -> GroupFunction:
    """Return the pipeline's function for applyInPandasWithState, applied to restored pages."""
    budget = CheckBudget()
    # Ops that came since the topics were read are for the pipeline's first batch to find: nothing
    # counts as read.
    terms = TaskTerms(rules, relay={at: RelayTerms(spans) for at, spans in (relayed or {}).items()})

    def restore(key: tuple[Any, ...], frames: Frames, state: GroupState) -> Frames:
        rows = pd.concat(list(frames), ignore_index=True)
        is_page = rows["kind"] == RESTORED_PAGE
        for blob in rows.loc[is_page, "blob"]:
            state.update((STATE_VERSION, bytes(blob)))
        place = settings.keys.place_of(key)
        events = events_in(rows[~is_page])
        yield advance_page(settings, budget, place, events, state, terms)

    return restore
