"""From Kafka rows to event rows, in SQL expressions that the JVM compiles.

An event row is small: what it is, which half it speaks of, when, and a hash of who. Headers are
read by position when they stand in the protocol's order, by name otherwise. What can't be decoded
becomes an event too, with its reason: it travels the same way and ends in the refused topic.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from checkback.protocol import properties as names
from checkback.protocol.refusals import RefusedReason
from checkback.protocol.topics import SYSTEM_TOPIC_PREFIXES, SYSTEM_TOPICS, TopicNames
from checkback.state import EventKind

EVENT_COLUMNS: Final = (
    "page_key", "partition", "kind", "offset", "time_ms", "identity", "detail", "source_offset",
)  # fmt: skip

NO_IMMUNITY: Final = -1
WHOLE_NUMBER: Final = "^[0-9]{1,12}$"


def decode(rows: DataFrame, topics: TopicNames, page_size: int) -> DataFrame:
    """Return one event row per record of the half and op topics, ticks left out.

    Args:
        rows: as Spark's Kafka source gives them, with headers.
        topics: the names of the topics.
        page_size: half offsets per page.

    Returns:
        page_key long (see page_key_of), partition int, kind tinyint (state.EventKind),
        offset long (of the half), time_ms long (of the record), identity long (top 16 bits: group;
        low 48: group and transaction id), detail long (a half's immunity time in ms or -1, an
        op's state, a feedback's check times, a refusal's code), source_offset long (of the record
        itself).
    """
    is_half = f.col("topic") == topics.half
    # A column of its own, and so computed once: each part asks for it.
    ordered = f.when(is_half, _stands_in(names.HALF_PROTOCOL_ORDER)).otherwise(
        _stands_in(names.OP_PROTOCOL_ORDER)
    )
    seen = rows.select("*", is_half.alias("is_half"), ordered.alias("in_order"))
    parts = seen.select(
        "is_half",
        "partition",
        f.col("offset").alias("source_offset"),
        f.unix_millis("timestamp").alias("time_ms"),
        f.when(~f.col("is_half"), f.expr("try_cast(cast(value as string) as bigint)")).alias(
            "named_offset"
        ),
        *_parts(),
    ).where("is_half or tag is null or tag <> 't'")
    judged = parts.select(
        "*",
        f.when(f.col("is_half"), _half_refusal(topics)).otherwise(_op_refusal()).alias("refusal"),
    )
    offset = f.when(f.col("is_half") | (f.col("refusal") != 0), f.col("source_offset")).otherwise(
        f.col("named_offset")
    )
    events = judged.select(
        "partition",
        _kind().alias("kind"),
        offset.alias("offset"),
        "time_ms",
        _identity().alias("identity"),
        _detail().alias("detail"),
        "source_offset",
    )
    page = f.expr(f"offset div {page_size}")
    return events.withColumn("page_key", page_key_of(page)).select(*EVENT_COLUMNS)


def page_key_of(page: Column) -> Column:
    """Return a page's number with its eight bytes reversed.

    The state store walks its rows in the order of their key's bytes, and Spark stores a number's
    lowest byte first. Reversed, the order of bytes is the order of pages: those whose time has come
    are called oldest first, so that the budget of check requests goes to the oldest.
    """
    key = f.lit(0)
    for byte in range(8):
        lowest = f.shiftright(page, 8 * byte).bitwiseAND(f.lit(0xFF))
        key = key.bitwiseOR(f.shiftleft(lowest.cast("long"), 56 - 8 * byte))
    return key


def page_of_key(key: int) -> int:
    """Return the number of the page whose key that is."""
    return int.from_bytes(key.to_bytes(8, "little", signed=True), "big", signed=True)


def _header_at(position: int) -> Column:
    """Return the header at a position; field by field, since `headers.value` builds an array."""
    return f.get(f.col("headers"), f.lit(position))


def _header(name: str, order: tuple[str, ...]) -> Column:
    """Return a header's value as text, by position where the headers stand in order."""
    by_position = _header_at(order.index(name)).getField("value")
    return f.when(f.col("in_order"), by_position).otherwise(_header_by_name(name)).cast("string")


def _header_by_name(name: str) -> Column:
    at = f.array_position(f.col("headers.key"), name).cast("int") - 1
    return f.get(f.col("headers"), at).getField("value")


def _stands_in(order: tuple[str, ...]) -> Column:
    stands = f.lit(True)
    for at, name in enumerate(order):
        stands = stands & f.coalesce(_header_at(at).getField("key") == name, f.lit(False))
    return stands


def _parts() -> list[Column]:
    half, op = names.HALF_PROTOCOL_ORDER, names.OP_PROTOCOL_ORDER
    is_half = f.col("is_half")

    def of_either(name: str) -> Column:
        return f.when(is_half, _header(name, half)).otherwise(_header(name, op))

    def of_half(name: str) -> Column:
        return f.when(is_half, _header(name, half))

    def of_op(name: str) -> Column:
        return f.when(~is_half, _header(name, op))

    # A feedback is rare and never in an op's order.
    is_feedback = (~is_half) & ~f.col("in_order")
    times = _header_by_name(names.TRANSACTION_CHECK_TIMES).cast("string").try_cast("long")
    is_feedback = is_feedback & (_header(names.TAGS, op) == names.OP_TAG_UNDELIVERED)
    return [
        of_either(names.PGROUP).alias("group"),
        of_either(names.UNIQ_KEY).alias("transaction_id"),
        of_half(names.TRAN_MSG).alias("tran_msg"),
        of_half(names.REAL_TOPIC).alias("real_topic"),
        of_half(names.CHECK_IMMUNITY_TIME_IN_SECONDS).alias("immunity"),
        of_op(names.TAGS).alias("tag"),
        of_op(names.COMMIT_OR_ROLLBACK).alias("op_state"),
        f.when(is_feedback, times).alias("feedback_times"),
    ]


def _blank(column: str) -> Column:
    return f.coalesce(f.length(column) == 0, f.lit(True))


def _half_refusal(topics: TopicNames) -> Column:
    real_topic = f.col("real_topic")
    bare = real_topic
    if topics.prefix:
        starts = real_topic.startswith(topics.prefix)
        bare = f.when(starts, f.substr(real_topic, f.lit(len(topics.prefix) + 1))).otherwise(bare)
    system = real_topic.isin(*SYSTEM_TOPICS) | bare.isin(*SYSTEM_TOPICS)
    for prefix in SYSTEM_TOPIC_PREFIXES:
        system = system | real_topic.startswith(prefix) | bare.startswith(prefix)
    return (
        f.when(f.coalesce(f.col("tran_msg") != "true", f.lit(True)), RefusedReason.NOT_A_HALF.value)
        .when(_blank("group"), RefusedReason.HALF_WITHOUT_GROUP.value)
        .when(_blank("transaction_id"), RefusedReason.HALF_WITHOUT_TRANSACTION_ID.value)
        .when(_blank("real_topic"), RefusedReason.HALF_WITHOUT_REAL_TOPIC.value)
        .when(system, RefusedReason.HALF_FOR_SYSTEM_TOPIC.value)
        .otherwise(0)
    )


def _op_refusal() -> Column:
    unreadable = f.col("named_offset").isNull() | (f.col("named_offset") < 0)
    is_op = f.col("tag") == names.OP_TAG_REMOVE
    is_feedback = f.col("feedback_times").isNotNull()
    known_state = f.coalesce(f.col("op_state").isin("8", "12", "0"), f.lit(False))
    return (
        f.when(f.coalesce(~is_op, f.lit(True)) & ~is_feedback, RefusedReason.OP_TAG_UNKNOWN.value)
        .when(unreadable, RefusedReason.OP_OFFSET_UNREADABLE.value)
        .when(is_feedback, 0)
        .when(~known_state, RefusedReason.OP_STATE_UNKNOWN.value)
        .when(_blank("group"), RefusedReason.OP_WITHOUT_GROUP.value)
        .when(_blank("transaction_id"), RefusedReason.OP_WITHOUT_TRANSACTION_ID.value)
        .otherwise(0)
    )


def _kind() -> Column:
    refused = f.col("refusal") != 0
    half = f.when(refused, EventKind.REFUSED_HALF.value).otherwise(EventKind.HALF.value)
    op = (
        f.when(refused, EventKind.REFUSED_OP.value)
        .when(f.col("feedback_times").isNotNull(), EventKind.UNDELIVERED.value)
        .otherwise(EventKind.OP.value)
    )
    return f.when(f.col("is_half"), half).otherwise(op).cast("byte")


def _identity() -> Column:
    """Return 64 bits: which group in the top 16, group and transaction id in the low 48.

    The whole tells whether an op fits its half, the top alone what is wrong when it does not.
    """
    group, transaction_id = f.col("group"), f.col("transaction_id")
    return f.shiftleft(f.xxhash64(group), 48).bitwiseOR(
        f.shiftrightunsigned(f.xxhash64(group, transaction_id), 16)
    )


def _detail() -> Column:
    immunity = f.when(
        f.length("immunity") > 0,
        f.when(f.col("immunity").rlike(WHOLE_NUMBER), f.col("immunity").try_cast("long") * 1_000),
    )
    op = f.coalesce(f.col("feedback_times"), f.col("op_state").try_cast("long"), f.lit(0))
    half = f.coalesce(immunity, f.lit(NO_IMMUNITY))
    return (
        f.when(f.col("refusal") != 0, f.col("refusal").cast("long"))
        .when(f.col("is_half"), half)
        .otherwise(op)
    )
