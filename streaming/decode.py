"""From Kafka rows to event rows, in SQL expressions that the JVM compiles.

An event row is small: its kind, the half that it is about, the time, and a hash of group and id.
Headers in the protocol's order are read by position, others by name; their values stay bytes,
because a text would be a copy. A record that can't be decoded becomes an event, too, with the
reason: it travels the same way and ends in the refused topic.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from checkback.protocol import properties as names
from checkback.protocol.topics import TopicNames
from checkback.state import CLOSED, DIRECT_SOURCE, EventKind
from checkback.state.identity import digest_sql, identity_sql, rest_sql
from checkback.streaming.decode_refusals import (
    as_bytes,
    body_refusal,
    count_refusal,
    half_refusal,
    names_refusal,
    op_refusal,
)
from checkback.streaming.op_page_bound import OpPageBound
from checkback.streaming.page_keys import page_key_of
from checkback.streaming.verification import RecordVerification

EVENT_COLUMNS: Final = (
    "page_key", "partition", "kind", "offset", "time_ms", "identity", "detail", "source_offset",
    "identity_rest",
)  # fmt: skip

NO_IMMUNITY: Final = -1
POSITIONS: Final = range(len(names.HALF_PROTOCOL_ORDER))
"""Number of headers that the protocol orders, in a half as in an op."""
OF_FENCE: Final = 0
"""Stands in place of a feedback's check times, which begin at 1."""
WHOLE_NUMBER: Final = "^[0-9]{1,12}$"
_DIRECT_AT: Final = len(POSITIONS)
"""Where the header may follow that tells of a direct session."""


def decode(
    rows: DataFrame,
    topics: TopicNames,
    page_size: int,
    body_bytes_max: Column | None = None,
    verification: RecordVerification | None = None,
    tasks_max: int | None = None,
    op_pages: OpPageBound | None = None,
) -> DataFrame:
    """Return one event row per record of the half and both op topics and per feedback.

    Other records of the feedback topic are skipped: ticks, and records of a stranger, although only
    the pipeline may write there.

    Args:
        rows: as Spark's Kafka source gives them, with headers.
        topics: the names of the topics.
        page_size: half offsets per page.
        body_bytes_max: how large a half's body may be; None for any size.
        verification: refuses what the rules of access control forbid; None where there are none.
        tasks_max: how many tasks read and decode, at most; None for one per partition of the rows.
        op_pages: refuses ops that name too many pages without a half; None where none is.

    Returns:
        page_key long (see page_keys), partition int, kind tinyint (state.EventKind),
        offset long (of the half), time_ms long (of the record), identity long (see
        state/identity.py), detail long (a half's immunity time in ms or -1, an op's state, a
        feedback's check times, a refusal's code), source_offset long (of the record itself); as
        state.Events has them.
    """
    access = ("access_refusal",) if verification else ()
    # Delivered ops are not signed; with access control there is no direct delivery.
    takes_direct = verification is None

    def loop_ends(decoded: DataFrame) -> DataFrame:
        """Cut the loop over rows: Spark compiles no loop across a coalesce.

        In one loop, decoding would have more bytecode than HotSpot ever compiles (8,000 bytes).
        """
        return decoded if tasks_max is None else decoded.coalesce(tasks_max)

    records = _records_to_decode(rows, topics, verification)
    read = loop_ends(_read_records(records, body_bytes_max, access))
    found = loop_ends(_found_by_name(read, access))
    judged = _judged(found, topics, access, takes_direct=takes_direct)
    events = _events(judged if op_pages is None else op_pages.refusing(judged))
    paged = events.withColumn("page", f.expr(f"offset div {page_size}"))
    return paged.withColumn("page_key", page_key_of(f.col("page"))).select(*EVENT_COLUMNS)


def _records_to_decode(
    rows: DataFrame, topics: TopicNames, verification: RecordVerification | None
) -> DataFrame:
    """Return halves, ops and feedback, each with what its place and its header names tell.

    A value that several later parts need is a column here, and so is computed once.
    """
    records = rows.where(_is_ours(topics)).select(
        "partition",
        f.col("offset").alias("source_offset"),
        f.unix_millis("timestamp").alias("time_ms"),
        "value",
        "headers",
        (f.col("topic") == topics.half).alias("is_half"),
        (f.col("topic") == topics.direct_op).alias("is_direct_op"),
        f.when(f.col("topic") == topics.feedback, _feedback_times()).alias("feedback_times"),
        *(("key",) if verification else ()),
    )
    if verification is not None:
        return verification.verified(records, topics)
    return records.withColumn("in_order", _stand_in_order())


def _read_records(
    records: DataFrame, body_bytes_max: Column | None, access: tuple[str, ...]
) -> DataFrame:
    """Return the records with their parsed values, and with the headers that stand in order.

    A record in order keeps no column as large as the record: Spark copies rows where a loop ends.
    """
    in_order = f.col("in_order")
    of_body = f.when(f.col("is_half"), body_refusal(body_bytes_max)).otherwise(0)
    return records.select(
        "is_half",
        "is_direct_op",
        "in_order",
        "partition",
        _source_offset().alias("source_offset"),
        "time_ms",
        f.when(~f.col("is_half"), _named_offset()).alias("named_offset"),
        "feedback_times",
        _stands_direct().alias("stands_direct"),
        count_refusal(is_signed=bool(access)).otherwise(of_body).alias("record_refusal"),
        f.when(~in_order | _may_be_fenced(), f.col("headers")).alias("odd_headers"),
        *(
            f.when(in_order, _header_at(position)["value"]).alias(f"stands_{position}")
            for position in POSITIONS
        ),
        *access,
    )


def _found_by_name(records: DataFrame, access: tuple[str, ...]) -> DataFrame:
    """Return the records with a column for each header that the protocol orders."""
    odd_names = f.when(~f.col("in_order"), f.col("odd_headers.key"))
    named = records.withColumns({"odd_names": odd_names, "says_fenced": _says_fenced()})
    is_fenced = f.col("says_fenced")
    return named.select(
        "is_half",
        "partition",
        "source_offset",
        "time_ms",
        "named_offset",
        f.when(is_fenced, OF_FENCE).otherwise(f.col("feedback_times")).alias("feedback_times"),
        f.when(is_fenced, _fenced_identity()).alias("fenced_identity"),
        names_refusal().otherwise(f.col("record_refusal")).alias("record_refusal"),
        _says_direct().alias("says_direct"),
        *(_said(position).alias(f"said_{position}") for position in POSITIONS),
        *access,
    )


def _judged(
    records: DataFrame, topics: TopicNames, access: tuple[str, ...], *, takes_direct: bool
) -> DataFrame:
    """Return the records with their parts by name, why each is refused, and its identity."""
    of_op = op_refusal(takes_direct=takes_direct)
    refusal = f.when(f.col("is_half"), half_refusal(topics)).otherwise(of_op)
    # A record without a group or an id is refused, so nobody uses its identity.
    digest = f.coalesce(f.expr(digest_sql("`group`", "transaction_id")), as_bytes(""))
    word = f.coalesce("fenced_identity", f.expr(identity_sql("`group`", "digest")), f.lit(0))
    return (
        records.select(*_parts(takes_direct=takes_direct), *access)
        .select(
            "*",
            (_or_access(refusal) if access else refusal).alias("refusal"),
            digest.alias("digest"),
        )
        .select("*", word.alias("identity"), f.expr(rest_sql("digest")).alias("identity_rest"))
    )


def _events(judged: DataFrame) -> DataFrame:
    """Return an event for each record that was judged; its page is still missing."""
    is_own_offset = f.col("is_half") | (f.col("refusal") != 0)
    own_offset = f.col("source_offset").bitwiseAND(DIRECT_SOURCE - 1)
    offset = f.when(is_own_offset, own_offset).otherwise(f.col("named_offset"))
    return judged.select(
        "partition",
        _kind().alias("kind"),
        offset.alias("offset"),
        "time_ms",
        "identity",
        _detail().alias("detail"),
        "source_offset",
        "identity_rest",
    )


def _or_access(refusal: Column) -> Column:
    """Return why a record is refused: an account that may not write it learns no other reason."""
    return f.when(f.col("access_refusal") != 0, f.col("access_refusal")).otherwise(refusal)


def _header_at(position: int) -> Column:
    """Return the header at a position; field by field, since `headers.value` builds an array."""
    return f.get(f.col("headers"), f.lit(position))


def _is_ours(topics: TopicNames) -> Column:
    """Tell whether a record is decoded: a half, an op, or feedback as the sink writes it."""
    tag, times = _header_at(0), _header_at(1)
    is_feedback = (
        (tag["key"] == names.TAGS)
        & (tag["value"] == as_bytes(names.OP_TAG_UNDELIVERED))
        & (times["key"] == names.TRANSACTION_CHECK_TIMES)
        & (_feedback_times() > 0)
        & (_named_offset() >= 0)
    )
    return (f.col("topic") != topics.feedback) | f.coalesce(is_feedback, f.lit(False))


def _feedback_times() -> Column:
    """Return the check times of a feedback, the second header of two."""
    return _number(_header_at(1)["value"])


def _named_offset() -> Column:
    """Return the number that the value is: decimal digits, without a sign or a space around them.

    A cast alone would accept sign and space, too. Between the first and the last byte it accepts
    only digits.
    """
    value = f.col("value")
    first, last = f.substring(value, 1, 1), f.substring(value, -1, 1)
    digits = [one.between(as_bytes("0"), as_bytes("9")) for one in (first, last)]
    return f.when(reduce(and_, digits), _number(value))


def _stand_in_order() -> Column:
    """Tell whether the first headers are the protocol's; name by name, which builds no array."""

    def stand(order: tuple[str, ...]) -> Column:
        matches = [_header_at(position)["key"] == name for position, name in enumerate(order)]
        return reduce(and_, matches)

    half, op = stand(names.HALF_PROTOCOL_ORDER), stand(names.OP_PROTOCOL_ORDER)
    return f.coalesce(f.when(f.col("is_half"), half).otherwise(op), f.lit(False))


def _said(position: int) -> Column:
    """Return the value of the header at this place of the protocol's order."""
    half, op = names.HALF_PROTOCOL_ORDER[position], names.OP_PROTOCOL_ORDER[position]
    return f.coalesce(f.col(f"stands_{position}"), _found(half, op))


def _found(of_half: str, of_op: str) -> Column:
    """Return the value of the first header of that name, where headers are not in order.

    It uses no lambda, which would cost each task of a batch some milliseconds.
    """
    name = f.when(f.col("is_half"), of_half).otherwise(of_op)
    at = f.array_position(f.col("odd_names"), name).cast("int") - 1
    return f.get(f.col("odd_headers"), at)["value"]


def _stands_direct() -> Column:
    """Tell whether the header after those of the protocol's order names a session."""
    follows = _header_at(_DIRECT_AT)
    of_op = f.col("is_direct_op") & (follows["key"] == names.DIRECT_CLOSED)
    stands = f.when(f.col("is_half"), follows["key"] == names.DIRECT_ID).otherwise(of_op)
    return f.coalesce(f.col("in_order") & stands & (follows["value"] != as_bytes("")), f.lit(False))


def _says_direct() -> Column:
    """Tell whether a half names a session, or an op on the direct op topic closes one.

    A null or empty value names no session; sink, clients and `tx resolve` read it so, too.
    """
    is_found = _found(names.DIRECT_ID, names.DIRECT_CLOSED) != as_bytes("")
    may_be_direct = f.col("is_half") | f.col("is_direct_op")
    return f.col("stands_direct") | f.coalesce(may_be_direct & is_found, f.lit(False))


def _parts(*, takes_direct: bool) -> list[Column]:
    """Return what the two protocol orders name, from what is said at their positions."""
    half, op = names.HALF_PROTOCOL_ORDER, names.OP_PROTOCOL_ORDER

    def at(order: tuple[str, ...], name: str) -> Column:
        return f.col(f"said_{order.index(name)}")

    def of_either(name: str) -> Column:
        return f.when(f.col("is_half"), at(half, name)).otherwise(at(op, name))

    return [
        *map(f.col, ("is_half", "partition", "source_offset", "time_ms", "named_offset")),
        *map(f.col, ("feedback_times", "fenced_identity", "record_refusal")),
        # A half says so that it is a direct one, an op that it closes the session of its half.
        (f.col("says_direct") & (f.lit(takes_direct) | ~f.col("is_half"))).alias("says_direct"),
        of_either(names.PGROUP).alias("group"),
        of_either(names.UNIQ_KEY).alias("transaction_id"),
        at(half, names.TRAN_MSG).alias("tran_msg"),
        at(half, names.REAL_TOPIC).alias("real_topic"),
        at(half, names.CHECK_IMMUNITY_TIME_IN_SECONDS).alias("immunity"),
        at(op, names.TAGS).alias("tag"),
        at(op, names.COMMIT_OR_ROLLBACK).alias("op_state"),
    ]


def _may_be_fenced() -> Column:
    """Tell whether a record has the tag of the sink's feedback of a fence."""
    tag = _header_at(0)["value"]
    return f.col("is_direct_op") & (tag == as_bytes(names.OP_TAG_FENCED))


def _says_fenced() -> Column:
    """Tell whether a record reads as the sink's feedback of a fence."""
    tag = f.get(f.col("odd_headers"), f.lit(0))
    says = (tag["key"] == names.TAGS) & (tag["value"] == as_bytes(names.OP_TAG_FENCED))
    is_one = f.col("is_direct_op") & says & (f.col("named_offset") >= 0)
    return f.coalesce(is_one, f.lit(False))


def _fenced_identity() -> Column:
    """Return which half the feedback of a fence is about; none if it does not say so."""
    said = f.get(f.col("odd_headers"), f.lit(1))["value"]
    return f.coalesce(_number(said), f.lit(0))


def _number(said: Column) -> Column:
    return said.cast("string").try_cast("long")


def _kind() -> Column:
    refused = f.col("refusal") != 0
    half = (
        f.when(refused, EventKind.REFUSED_HALF.value)
        .when(f.col("says_direct"), EventKind.DIRECT_HALF.value)
        .otherwise(EventKind.HALF.value)
    )
    op = (
        f.when(refused, EventKind.REFUSED_OP.value)
        .when(f.col("feedback_times") == OF_FENCE, EventKind.FENCED.value)
        .when(f.col("feedback_times").isNotNull(), EventKind.UNDELIVERED.value)
        .otherwise(EventKind.OP.value)
    )
    return f.when(f.col("is_half"), half).otherwise(op).cast("byte")


def _source_offset() -> Column:
    """Return the record's own offset, marked where it stands on the direct op topic."""
    return f.col("source_offset") + f.when(f.col("is_direct_op"), DIRECT_SOURCE).otherwise(0)


def _detail() -> Column:
    immunity = f.col("immunity")
    is_whole = immunity.cast("string").rlike(WHOLE_NUMBER)
    immunity_ms = f.when(immunity != as_bytes(""), f.when(is_whole, _number(immunity) * 1_000))
    said = _number(f.col("op_state")) + f.when(f.col("says_direct"), CLOSED).otherwise(0)
    op = f.coalesce(f.col("feedback_times"), said, f.lit(0))
    half = f.coalesce(immunity_ms, f.lit(NO_IMMUNITY))
    return (
        f.when(f.col("refusal") != 0, f.col("refusal").cast("long"))
        .when(f.col("is_half"), half)
        .otherwise(op)
    )
