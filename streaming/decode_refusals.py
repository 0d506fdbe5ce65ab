"""Why a record is refused while it is decoded, in SQL expressions that the JVM compiles."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as f

from checkback.protocol import properties as names
from checkback.protocol.refusals import ID_BYTES_MAX, RefusedReason
from checkback.protocol.topics import SYSTEM_TOPIC_PREFIXES, SYSTEM_TOPICS, TopicNames
from checkback.state import DIRECT_SOURCE

TOPIC_LENGTH_MAX: Final = 127
"""RocketMQ's (Validators.TOPIC_MAX_LENGTH). A name with characters that Kafka does not take is
refused with the verdict, since there is no such topic: a pattern would cost every half 0.4 us."""
GROUP_BYTES_MAX: Final = 255
OP_STATES: Final = (
    names.TRANSACTION_NOT_TYPE, names.TRANSACTION_COMMIT_TYPE, names.TRANSACTION_ROLLBACK_TYPE,
    names.TRANSACTION_DELIVERED,
)  # fmt: skip
"""The last one is valid only on the direct op topic."""


def names_refusal() -> Column:
    """Return why the names of a record's odd headers refuse it; other reasons stay open.

    Kafka's clients in C end a name at a NUL, and some read no name that is not UTF-8 (the JVM reads
    a character of its own for what it can't): where headers are looked up by name, the sink would
    find others than were found here. Where they stand in order it finds the same ones first, and
    looking through all names would cost every half a quarter of a microsecond.
    """
    is_half = f.col("is_half")
    of_half = f.lit(RefusedReason.HALF_HEADER_NAME_INVALID.value)
    invalid = f.when(is_half, of_half).otherwise(RefusedReason.OP_HEADER_NAME_INVALID.value)
    all_names = f.array_join("odd_names", "\n")
    is_invalid = f.contains(all_names, f.lit("\0")) | f.contains(all_names, f.lit("\ufffd"))
    counted = RefusedReason.HALF_WITH_CHECK_TIMES.value
    return f.when(is_invalid, invalid).when(is_half & _has_check_times("odd_names"), counted)


def count_refusal(*, is_signed: bool) -> Column:
    """Return why a half in order is refused for what follows the headers in order, as above.

    Args:
        is_signed: whether a half is refused anyway unless its last header is the signature.
    """
    expected = len(names.HALF_PROTOCOL_ORDER) + (1 if is_signed else 0)
    has_others = f.size("headers") > expected
    is_counted = f.col("is_half") & f.col("in_order") & has_others & _has_check_times("headers.key")
    return f.when(is_counted, RefusedReason.HALF_WITH_CHECK_TIMES.value)


def _has_check_times(all_names: str) -> Column:
    return f.array_contains(all_names, names.TRANSACTION_CHECK_TIMES)


def body_refusal(bytes_max: Column | None) -> Column:
    """Return why a half is refused for its body, 0 if it is not."""
    size = f.coalesce(f.octet_length("value"), f.lit(0))
    found = f.when(size == 0, RefusedReason.HALF_BODY_EMPTY.value)
    if bytes_max is not None:
        found = found.when(size > bytes_max, RefusedReason.HALF_BODY_TOO_LARGE.value)
    return found.otherwise(0)


def half_refusal(topics: TopicNames) -> Column:
    """Return why a half is refused for what it says, 0 if it is not."""
    real_topic = f.col("real_topic")
    # Compared with our prefix and without it: removing it would cut every topic's name.
    prefixes = ("", topics.prefix) if topics.prefix else ("",)
    names = [prefix + name for prefix in prefixes for name in SYSTEM_TOPICS]
    system = real_topic.isin(*map(as_bytes, [*names, topics.rules] if topics.rules else names))
    for prefix in prefixes:
        for system_prefix in SYSTEM_TOPIC_PREFIXES:
            system = system | f.startswith(real_topic, as_bytes(prefix + system_prefix))
    not_a_half = f.coalesce(f.col("tran_msg") != as_bytes("true"), f.lit(True))
    return (
        f.when(not_a_half, RefusedReason.NOT_A_HALF.value)
        .when(_is_blank("group"), RefusedReason.HALF_WITHOUT_GROUP.value)
        .when(_is_blank("transaction_id"), RefusedReason.HALF_WITHOUT_TRANSACTION_ID.value)
        .when(_is_blank("real_topic"), RefusedReason.HALF_WITHOUT_REAL_TOPIC.value)
        .when(system, RefusedReason.HALF_FOR_SYSTEM_TOPIC.value)
        .when(
            f.octet_length(real_topic) > TOPIC_LENGTH_MAX, RefusedReason.HALF_TOPIC_TOO_LONG.value
        )
        .when(_is_long("group", GROUP_BYTES_MAX), RefusedReason.HALF_NAME_TOO_LONG.value)
        .when(_is_long("transaction_id", ID_BYTES_MAX), RefusedReason.HALF_NAME_TOO_LONG.value)
        .otherwise(f.col("record_refusal"))
    )


def op_refusal(*, takes_direct: bool) -> Column:
    """Return why an op is refused for what it says, 0 if it is not.

    Args:
        takes_direct: whether a delivered op is taken.
    """
    unreadable = f.col("named_offset").isNull() | (f.col("named_offset") < 0)
    is_op = f.col("tag") == as_bytes(names.OP_TAG_REMOVE)
    *plain, delivered = (as_bytes(str(one)) for one in OP_STATES)
    known_state = f.col("op_state").isin(*plain)
    if takes_direct:
        is_direct = f.col("source_offset") >= DIRECT_SOURCE
        known_state |= is_direct & (f.col("op_state") == delivered)
    known_state = f.coalesce(known_state, f.lit(False))
    return (
        f.when(f.col("feedback_times").isNotNull(), 0)
        .when(f.coalesce(~is_op, f.lit(True)), RefusedReason.OP_TAG_UNKNOWN.value)
        .when(unreadable, RefusedReason.OP_OFFSET_UNREADABLE.value)
        .when(~known_state, RefusedReason.OP_STATE_UNKNOWN.value)
        .when(_is_blank("group"), RefusedReason.OP_WITHOUT_GROUP.value)
        .when(_is_blank("transaction_id"), RefusedReason.OP_WITHOUT_TRANSACTION_ID.value)
        .otherwise(f.col("record_refusal"))
    )


def _is_long(name: str, bytes_max: int) -> Column:
    return f.octet_length(f.col(name)) > bytes_max


def _is_blank(column: str) -> Column:
    return f.coalesce(f.col(column) == as_bytes(""), f.lit(True))


def as_bytes(text: str) -> Column:
    """Return a text as headers hold it."""
    return f.lit(text.encode())
