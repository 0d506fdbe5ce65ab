"""The query: three topics in, page-keyed state, outcomes to the sink."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupStateTimeout

from checkback.protocol.configuration import Settings
from checkback.protocol.topics import TopicNames
from checkback.streaming.job.query_failure import BatchFunction, raising_exceptions
from checkback.streaming.pages.event_columns import packed
from checkback.streaming.pages.page_function import (
    OUTCOME_SCHEMA,
    STATE_SCHEMA,
    GroupFunction,
    PageFunction,
    PageSettings,
)
from checkback.streaming.pages.page_key import KEY_COLUMNS
from checkback.streaming.source.decode import decode
from checkback.streaming.source.verification import RecordVerification
from checkback.streaming.spark.cores import state_partitions

READ_TASKS_PER_STATE_PARTITION: Final = 2
"""A task's Kafka partitions may all be of the op topic, soon read: in two waves of tasks, or with
two tasks to a core, no core is idle meanwhile.
"""


def read_tasks(settings: Settings) -> int:
    """Return how many tasks read and decode, at most."""
    return READ_TASKS_PER_STATE_PARTITION * state_partitions(settings)


def outcomes_of(
    rows: DataFrame,
    topics: TopicNames,
    pages: PageSettings,
    tasks_max: int,
    verification: RecordVerification | None = None,
) -> DataFrame:
    """Return what the pages decide: one row (partition, page, outcome) per page and batch.

    A task reads several Kafka partitions where there are many: Spark gives each a task of its own,
    which takes 10 ms of processor time with nothing to read (docs/benchmarks.md#kept). Tasks
    are put together behind the loop that decodes: Spark compiles no loop across that step.

    Args:
        tasks_max: how many tasks read and decode, at most.
        verification: the rules of access control; None where it is off.
    """
    decoded = decode(rows, topics, pages.page_size, verification)
    keyed = pages.keys.put_on(packed(decoded, pages.page_size))
    return decided(keyed.coalesce(tasks_max), PageFunction(pages))


def decided(keyed: DataFrame, function: GroupFunction) -> DataFrame:
    """Return what a function decides for each page; the operator that a checkpoint is known by.

    Args:
        function: called once for each page with rows, or due by its timeout.
    """
    return keyed.groupBy(*KEY_COLUMNS).applyInPandasWithState(
        function,
        OUTCOME_SCHEMA,
        STATE_SCHEMA,
        "append",
        GroupStateTimeout.ProcessingTimeTimeout,
    )


def start_query(
    outcomes: DataFrame, settings: Settings, write_batch: BatchFunction, *, is_long: bool = True
) -> StreamingQuery:
    """Start the query over the checkpoint in the settings; if it is not long, for one batch."""
    writer = (
        outcomes.writeStream.queryName(settings.application_id)
        .outputMode("append")
        .option("checkpointLocation", settings.checkpoint)
        .foreachBatch(raising_exceptions(write_batch))
    )
    # At once: the sink holds batches (batch/idle_wait.py); Spark would wait by the wall clock.
    trigger: Any = {"processingTime": "0 seconds"} if is_long else {"once": True}
    return writer.trigger(**trigger).start()
