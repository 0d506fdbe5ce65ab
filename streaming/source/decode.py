"""Decodes Kafka records into event rows with RecordDecoder.java.

An event row is small: its kind, the half that it is about, the time, and a hash of group and id. A
record that can't be decoded becomes an event, too, with the reason: it travels the same way and
ends in the refused topic. The class ``RecordDecoder.java`` reads a record where Spark has it, and
makes no object of it (docs/decisions/query.md#decoder).
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from checkback.checkpoints.spark_internals import call_for_rows
from checkback.protocol.topics import SYSTEM_TOPIC_PREFIXES, SYSTEM_TOPICS, TopicNames
from checkback.streaming.source.verification import RecordVerification
from checkback.streaming.spark.java_classes import java_class

EVENT_COLUMNS: Final = (
    "page_key", "partition", "kind", "offset", "time_ms", "identity", "detail", "source_offset",
    "identity_rest",
)  # fmt: skip
EVENT_TYPE: Final = (
    "page_key bigint, partition int, kind tinyint, offset bigint, time_ms bigint, identity bigint,"
    " detail bigint, source_offset bigint, identity_rest bigint"
)
"""As the class fills a row."""
DECODER: Final = "RecordDecoder"


def decode(
    rows: DataFrame,
    topics: TopicNames,
    page_size: int,
    verification: RecordVerification | None = None,
) -> DataFrame:
    """Return one event row per record of the half and op topics, per decided op and per feedback.

    Other records of the feedback and decided topics are skipped: ticks, what is said of a
    partition, and records of a stranger, although only the pipeline may write there. So are ops
    that a relay takes: the decided topic has them. The terms of the batch
    (streaming/batch/terms.py) say how large a half may be, which halves an op or a feedback may
    name, and which ops relays take; outside of a batch anything goes.

    Returns:
        page_key long (see streaming/pages/page_key.py), partition int, kind tinyint
        (state.EventKind), offset long (of the half), time_ms long (of the record), identity long
        (see state/formats/identity.py), detail long (a half's immunity time in ms or -1, an op's
        state, a feedback's check times, a refusal's code), source_offset long (of the record
        itself; of a decided op where it stands on the op topic); as state.Events has them.
    """
    spark = rows.sparkSession
    decoder = _decoder(spark, topics, page_size)
    if verification is not None:
        decoder.verifyBy(verification.verifier(topics))
    # Only a signature covers the key: it is copied where signatures are verified.
    key = f.lit(None).cast("binary") if verification is None else f.col("key")
    arguments = [
        *map(f.col, ("topic", "partition", "offset", "timestamp")),
        key,
        *map(f.col, ("value", "headers")),
    ]
    event = call_for_rows(spark, decoder, "event", EVENT_TYPE, arguments)
    decoded = rows.select(event.alias("event"))
    return decoded.where(f.col("event").isNotNull()).select("event.*")


def _decoder(spark: SparkSession, topics: TopicNames, page_size: int) -> Any:
    """Return the object that Spark calls, in the session's JVM."""
    # Compared with topic_prefix and without it: removing it would cut every topic's name.
    prefixes = ("", topics.prefix) if topics.prefix else ("",)
    refused = [prefix + name for prefix in prefixes for name in sorted(SYSTEM_TOPICS)]
    beginnings = [prefix + one for prefix in prefixes for one in SYSTEM_TOPIC_PREFIXES]
    if topics.rules:
        refused.append(topics.rules)
    return java_class(spark, DECODER)(
        *(topics.half, topics.direct_op, topics.feedback, topics.decided),
        *map(" ".join, (refused, beginnings)),
        page_size,
    )
