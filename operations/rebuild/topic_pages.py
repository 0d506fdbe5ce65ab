"""Restores pages from the topics: a Spark job over all halves, ops, refusals and marks.

The job reads every topic from its beginning, because the marks say that an op was accepted, but not
which one. For each half only an event row travels between tasks, as in the pipeline itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from checkback.checkpoints.own_files.relay_terms import Spans
from checkback.operations.rebuild.page import (
    Known,
    RestoredCounts,
    RestoredPage,
    restore_page,
)
from checkback.operations.rebuild.relayed import without_relayed
from checkback.operations.rebuild.topic_spans import TopicSpans
from checkback.protocol.properties import ERROR_HEADER_PREFIX
from checkback.protocol.topics import TopicNames
from checkback.security import AccessControl
from checkback.state import Page, Rules, marks_of, unpack_settled
from checkback.streaming.pages.event_columns import events_in
from checkback.streaming.pages.page_key import page_key_of, page_of_key
from checkback.streaming.source.decode import EVENT_COLUMNS, EVENT_TYPE, decode
from checkback.streaming.source.verification import RecordVerification

RESTORED_PAGE: Final = 0
"""Kinds of rows that hold a page, or a page's marks; the other kinds are those of EventKind."""
COUNT_NAMES: Final = tuple(one.name for one in fields(RestoredCounts))
_COUNTS_TYPE: Final = ", ".join(f"{name} long" for name in COUNT_NAMES)
RESTORED_SCHEMA: Final = f"{EVENT_TYPE}, blob binary, {_COUNTS_TYPE}"
_MARKS_SCHEMA: Final = "page long, partition int, blob binary"
_ARROW_MARKS: Final = pa.schema(
    [("page", pa.int64()), ("partition", pa.int32()), ("blob", pa.binary())]
)


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """What every task of the job has to know.

    Args:
        page_size: half offsets per page of the new checkpoint; the old checkpoint's may differ.
        now_ms: the time when the rebuild began.
        rules: the rules from that time on.
        known: facts about every half partition, by number.
    """

    page_size: int
    now_ms: int
    rules: Rules
    known: Mapping[int, Known]


def known_halves(
    positions: TopicSpans, half_topic: str, unknown_are: str | None, *, is_marked_topic: bool
) -> dict[int, Known]:
    """Return the known facts about every half partition."""
    from_ms, are_settled = positions.marks_from_ms, unknown_are == "settled"
    return {
        number: Known(span.first, span.end, from_ms, are_settled, is_marked_topic)
        for number, span in positions.spans[half_topic].items()
    }


def restored_rows(
    spark: SparkSession,
    source: Mapping[str, str],
    names: TopicNames,
    positions: TopicSpans,
    history: HistorySettings,
    rules: AccessControl | None = None,
    relayed: Spans | None = None,
) -> DataFrame:
    """Return one row per page that has state, and the events that the first batch has to judge.

    Args:
        positions: the offsets to read up to.
        rules: of access control; None where it is off.
        relayed: what relays took; None without a decided topic.

    Returns:
        RESTORED_SCHEMA. A row of kind RESTORED_PAGE holds the packed page in `blob`, and counts.
        The other rows are events as `decode` makes them.
    """
    # What no mark speaks of, no job has judged: it is believed by the rules of today.
    verification = None if rules is None else RecordVerification(spark, rules)

    def topic(name: str) -> DataFrame:
        return read_topic(spark, source, name, positions)

    def judged(records: DataFrame) -> DataFrame:
        return decode(records, names, history.page_size, verification)

    events = judged(topic(names.half))
    ops = judged(without_relayed(topic(names.op), relayed or {}))
    if relayed is not None:
        ops = ops.unionByName(judged(topic(names.decided)))
    refused = _refused_ops(topic(names.refused), names)
    ops = ops.join(refused, ["partition", "source_offset"], "left_anti").select(*EVENT_COLUMNS)
    no_blob = f.lit(None).cast("binary").alias("blob")
    feedback = decode(topic(names.feedback), names, history.page_size)
    told = events.unionByName(ops).unionByName(feedback).select("*", no_blob)
    marks = _marks(topic(names.settled), history.page_size)
    pages = told.unionByName(marks).groupBy("page_key", "partition")
    return pages.applyInArrow(restore_function(history), RESTORED_SCHEMA)


def counts_of(rows: DataFrame) -> RestoredCounts:
    """Return the sum of the counts of all pages."""
    sums = rows.agg(*(f.coalesce(f.sum(name), f.lit(0)).alias(name) for name in COUNT_NAMES))
    return RestoredCounts(**sums.collect()[0].asDict())


def read_topic(
    spark: SparkSession, source: Mapping[str, str], topic: str, positions: TopicSpans
) -> DataFrame:
    """Return the records of a topic up to where it is read."""
    reader = spark.read.format("kafka").options(**source).option("subscribe", topic)
    return (
        reader.option("startingOffsets", "earliest")
        .option("endingOffsets", json.dumps(positions.ends([topic])))
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "true")
        .option("kafka.isolation.level", "read_committed")
        .load()
    )


def _refused_ops(refused: DataFrame, names: TopicNames) -> DataFrame:
    """Return (partition, source_offset) of the ops that were refused."""
    of_ops = refused.where(_header("topic") == names.op)
    return of_ops.select(
        _header("partition").try_cast("int").alias("partition"),
        _header("offset").try_cast("long").alias("source_offset"),
    ).distinct()


def _header(fact: str) -> Column:
    # Checkback's headers are the last ones: the refused record may have headers of the same names.
    headers = f.reverse("headers")
    at = f.array_position(headers.getField("key"), ERROR_HEADER_PREFIX + fact).cast("int") - 1
    return f.get(headers, at).getField("value").cast("string")


def _marks(settled: DataFrame, page_size: int) -> DataFrame:
    """Return the marks as one row per page that they concern, still packed."""

    def by_page(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield marks_by_page(batch.column("key"), batch.column("value"), page_size)

    found = settled.select("key", "value").mapInArrow(by_page, _MARKS_SCHEMA)
    others = [name for name in EVENT_COLUMNS if name not in ("page_key", "partition", "kind")]
    return found.select(
        page_key_of(f.col("page")).alias("page_key"),
        "partition",
        f.lit(RESTORED_PAGE).cast("byte").alias("kind"),
        *(f.lit(0).cast("long").alias(name) for name in others),
        "blob",
    )


def marks_by_page(keys: pa.Array, blobs: pa.Array, page_size: int) -> pa.RecordBatch:
    """Return a row (page, partition, blob) for each page of this size that the marks concern.

    Records that no job wrote concern none.
    """
    rows: dict[str, list[Any]] = {"page": [], "partition": [], "blob": []}
    for key, blob in zip(keys.to_pylist(), blobs.to_pylist(), strict=True):
        marks = marks_of(key, blob)
        if marks is None:
            continue
        for page in np.unique(marks.offset // page_size).tolist():
            rows["page"].append(page)
            rows["partition"].append(marks.partition)
            rows["blob"].append(blob)
    return pa.RecordBatch.from_pydict(rows, schema=_ARROW_MARKS)


def restore_function(
    history: HistorySettings,
) -> Callable[[tuple[Any, ...], pa.Table], pa.Table]:
    """Return the function for applyInArrow."""

    def restore(key: tuple[Any, ...], table: pa.Table) -> pa.Table:
        page_key, partition = key[0].as_py(), key[1].as_py()
        empty = Page.empty(partition, page_of_key(page_key), history.page_size)
        is_mark = table["kind"].to_numpy() == RESTORED_PAGE
        marks = [unpack_settled(one) for one in table.filter(is_mark)["blob"].to_pylist()]
        events = events_in(table.filter(~is_mark))
        # No such half partition: malformed marks or ops, judged without facts about a partition.
        known = history.known.get(partition, Known(0, 0, 0))
        restored = restore_page(empty, events, marks, known, history.now_ms, history.rules)
        return _rows(page_key, restored)

    return restore


def _rows(page_key: int, restored: RestoredPage) -> pa.Table:
    """Return one row with page and counts, then the events."""
    page, events = restored.page, restored.events
    count = len(events)
    blob = None if page.is_empty else page.pack()
    columns: dict[str, Any] = {
        "page_key": np.full(count + 1, page_key),
        "partition": np.full(count + 1, page.partition, np.int32),
        "kind": np.append(RESTORED_PAGE, events.kind).astype(np.int8),
        "offset": np.append(page.first_offset, events.offset),
        "time_ms": np.append(page.oldest_ms, events.time_ms),
        "blob": pa.array([blob, *[None] * count], pa.binary()),
    }
    for name in ("identity", "detail", "source_offset", "identity_rest"):
        columns[name] = np.append(0, getattr(events, name))
    for name in COUNT_NAMES:
        columns[name] = np.append(getattr(restored.counts, name), np.zeros(count, np.int64))
    return pa.table(columns)
