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
    parts = rows.select(
        is_half.alias("is_half"),
        "partition",
        f.col("offset").alias("source_offset"),
        f.unix_millis("timestamp").alias("time_ms"),
        f.expr("try_cast(cast(value as string) as bigint)").alias("named_offset"),
        *_half_parts(is_half),
        *_op_parts(is_half),
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


def _header(name: str, order: tuple[str, ...], in_order: Column) -> Column:
    """Return a header's value as text, by position where the headers stand in order."""
    by_position = f.get(f.col("headers.value"), f.lit(order.index(name)))
    by_name = f.get(
        f.col("headers.value"), f.array_position(f.col("headers.key"), name).cast("int") - 1
    )
    return f.when(in_order, by_position).otherwise(by_name).cast("string")


def _stands_in(order: tuple[str, ...]) -> Column:
    keys = [
        f.coalesce(f.get(f.col("headers.key"), f.lit(at)) == name, f.lit(False))
        for at, name in enumerate(order)
    ]
    stands = keys[0]
    for key in keys[1:]:
        stands = stands & key
    return stands


def _half_parts(is_half: Column) -> list[Column]:
    order = names.HALF_PROTOCOL_ORDER
    in_order = _stands_in(order)
    wanted = {
        "tran_msg": names.TRAN_MSG,
        "half_group": names.PGROUP,
        "half_id": names.UNIQ_KEY,
        "real_topic": names.REAL_TOPIC,
        "immunity": names.CHECK_IMMUNITY_TIME_IN_SECONDS,
    }
    return [
        f.when(is_half, _header(name, order, in_order)).alias(alias)
        for alias, name in wanted.items()
    ]


def _op_parts(is_half: Column) -> list[Column]:
    order = names.OP_PROTOCOL_ORDER
    in_order = _stands_in(order)
    wanted = {
        "tag": names.TAGS,
        "op_state": names.COMMIT_OR_ROLLBACK,
        "op_group": names.PGROUP,
        "op_id": names.UNIQ_KEY,
    }
    parts = [
        f.when(~is_half, _header(name, order, in_order)).alias(alias)
        for alias, name in wanted.items()
    ]
    # A feedback is rare and never in an op's order.
    times = _header(names.TRANSACTION_CHECK_TIMES, (names.TRANSACTION_CHECK_TIMES,), f.lit(False))
    feedback = (~is_half) & (_header(names.TAGS, order, in_order) == names.OP_TAG_UNDELIVERED)
    return [*parts, f.when(feedback, times.try_cast("long")).alias("feedback_times")]


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
        .when(_blank("half_group"), RefusedReason.HALF_WITHOUT_GROUP.value)
        .when(_blank("half_id"), RefusedReason.HALF_WITHOUT_TRANSACTION_ID.value)
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
        .when(_blank("op_group"), RefusedReason.OP_WITHOUT_GROUP.value)
        .when(_blank("op_id"), RefusedReason.OP_WITHOUT_TRANSACTION_ID.value)
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
    group = f.when(f.col("is_half"), f.col("half_group")).otherwise(f.col("op_group"))
    transaction_id = f.when(f.col("is_half"), f.col("half_id")).otherwise(f.col("op_id"))
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
