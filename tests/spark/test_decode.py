"""From Kafka rows to event rows, on static data."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from tests.spark.harness import NAMES, RULES, KafkaRow, half_row, kafka_rows, op_row

from checkback.checkpoints.pending.pending_halves import group_tag
from checkback.protocol.configuration import Settings
from checkback.protocol.refusals import RefusedReason
from checkback.protocol.topics import TopicNames
from checkback.state import BEFORE_OPS, EventKind
from checkback.state.formats.identity import group_part, identity_words
from checkback.streaming.batch.terms import TaskTerms
from checkback.streaming.pages.event_columns import packed
from checkback.streaming.pages.page_key import PageKeys, page_key_of, page_of_key
from checkback.streaming.source.decode import decode
from checkback.streaming.spark.java_protocol import TERMS_PROPERTY

TRAN = ("TRAN_MSG", b"true")
GROUP = ("PGROUP", b"g")
ID = ("UNIQ_KEY", b"u")
TO = ("REAL_TOPIC", b"orders")
IMMUNITY = ("CHECK_IMMUNITY_TIME_IN_SECONDS", b"")
TIMES = ("TRANSACTION_CHECK_TIMES", b"7")
OP = [("TAGS", b"d"), ("COMMIT_OR_ROLLBACK", b"8"), GROUP, ID]


def events(spark: SparkSession, rows: list[KafkaRow], names: TopicNames = NAMES) -> list[Any]:
    lines = spark.createDataFrame([(row.to_json(),) for row in rows], "value string")
    return decode(kafka_rows(lines), names, 1024).collect()


def half(*headers: tuple[str, bytes | None], offset: int = 5) -> KafkaRow:
    return KafkaRow(NAMES.half, 1, offset, 99, b"body", list(headers))


def op(value: bytes | None, *headers: tuple[str, bytes], offset: int = 5) -> KafkaRow:
    return KafkaRow(NAMES.op, 1, offset, 99, value, list(headers))


def test_a_half_and_its_op_meet_in_the_same_page_with_the_same_identity(
    spark: SparkSession,
) -> None:
    rows = [
        half_row(1_030, time_ms=7, partition=3, transaction_id="u"),
        op_row(4, 1_030, 8, time_ms=9, partition=3, transaction_id="u"),
    ]

    first, second = events(spark, rows)

    assert (first.partition, first.kind, first.offset) == (3, EventKind.HALF, 1_030)
    assert page_of_key(first.page_key) == page_of_key(second.page_key) == 1
    assert (first.time_ms, first.detail, first.source_offset) == (7, -1, 1_030)
    assert (second.partition, second.kind) == (3, EventKind.OP)
    assert (second.offset, second.time_ms, second.detail, second.source_offset) == (1_030, 9, 8, 4)
    assert first.identity == second.identity


def test_headers_by_name_read_as_headers_in_order(spark: SparkSession) -> None:
    ordered, shuffled = events(
        spark,
        [
            half_row(5, time_ms=99, partition=1, transaction_id="u", immunity="30"),
            half(("x", b"1"), TO, ("CHECK_IMMUNITY_TIME_IN_SECONDS", b"30"), ID, GROUP, TRAN),
        ],
    )

    assert ordered == shuffled


def test_another_group_shows_in_the_groups_part_another_id_only_in_the_rest(
    spark: SparkSession,
) -> None:
    found = events(
        spark,
        [
            half(TRAN, GROUP, ID, TO),
            half(TRAN, ("PGROUP", b"h"), ID, TO),
            half(TRAN, GROUP, ("UNIQ_KEY", b"v"), TO),
        ],
    )

    own, other_group, other_id = np.array([event.identity for event in found])
    assert group_part(own) == group_part(other_id) != group_part(other_group)
    assert own != other_id


@pytest.mark.parametrize(
    ("group", "transaction_id"),
    [(b"g", b"u"), (b"orders", b"7F0000010A2B18B4AAC2000000000001"), (b"\xff\x00", b"\xc3\x28")],
)
def test_an_identity_is_the_same_wherever_it_is_made(
    spark: SparkSession, group: bytes, transaction_id: bytes
) -> None:
    [event] = events(spark, [half(TRAN, ("PGROUP", group), ("UNIQ_KEY", transaction_id), TO)])

    assert (event.identity, event.identity_rest) == identity_words(group, transaction_id)
    assert 0 <= event.identity_rest < 2**32


def test_where_the_group_ends_and_the_id_begins_makes_another_identity() -> None:
    first, second = identity_words(b"ab", b"c"), identity_words(b"a", b"bc")

    assert first[0] & 2**48 - 1 != second[0] & 2**48 - 1
    assert first[1] != second[1]


def test_the_halves_of_a_group_are_found_by_its_name(spark: SparkSession) -> None:
    own, other = events(spark, [half(TRAN, GROUP, ID, TO), half(TRAN, ("PGROUP", b"h"), ID, TO)])

    assert group_part(np.array(own.identity)) == group_tag("g")
    assert group_part(np.array(other.identity)) == group_tag("h") != group_tag("g")


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [(b"0", 0), (b"30", 30_000), (b"", -1), (b"-1", -1), (b"abc", -1), (b"1.5", -1)],
)
def test_an_immunity_time_counts_if_it_is_a_whole_number(
    spark: SparkSession, text: bytes, expected_ms: int
) -> None:
    [event] = events(spark, [half(TRAN, GROUP, ID, TO, ("CHECK_IMMUNITY_TIME_IN_SECONDS", text))])

    assert event.detail == expected_ms


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (half(GROUP, ID, TO), RefusedReason.NOT_A_HALF),
        (half(("TRAN_MSG", b"false"), GROUP, ID, TO), RefusedReason.NOT_A_HALF),
        (KafkaRow(NAMES.half, 1, 5, 99, b"", None), RefusedReason.NOT_A_HALF),
        (half(TRAN, ID, TO), RefusedReason.HALF_WITHOUT_GROUP),
        (half(TRAN, ("PGROUP", b""), ID, TO), RefusedReason.HALF_WITHOUT_GROUP),
        (half(TRAN, GROUP, TO), RefusedReason.HALF_WITHOUT_TRANSACTION_ID),
        (half(TRAN, GROUP, ID), RefusedReason.HALF_WITHOUT_REAL_TOPIC),
        (half(TRAN, GROUP, ID, ("REAL_TOPIC", b"TBW102")), RefusedReason.HALF_FOR_SYSTEM_TOPIC),
        (half(TRAN, GROUP, ID, ("REAL_TOPIC", b"rmq_sys_x")), RefusedReason.HALF_FOR_SYSTEM_TOPIC),
        (half(TRAN, GROUP, ID, ("REAL_TOPIC", b"x" * 128)), RefusedReason.HALF_TOPIC_TOO_LONG),
        (half(TRAN, ("PGROUP", b"x" * 256), ID, TO), RefusedReason.HALF_NAME_TOO_LONG),
        (half(TRAN, GROUP, ("UNIQ_KEY", b"x" * 1_025), TO), RefusedReason.HALF_NAME_TOO_LONG),
        (half(TRAN, GROUP, ID, TO, TIMES), RefusedReason.HALF_WITH_CHECK_TIMES),
        (half(TRAN, GROUP, ID, TO, IMMUNITY, TIMES), RefusedReason.HALF_WITH_CHECK_TIMES),
        (
            KafkaRow(NAMES.half, 1, 5, 99, b"", [TRAN, GROUP, ID, TO]),
            RefusedReason.HALF_BODY_EMPTY,
        ),
        (op(None, *OP), RefusedReason.OP_OFFSET_UNREADABLE),
        (op(b"x", *OP), RefusedReason.OP_OFFSET_UNREADABLE),
        (op(b"-3", *OP), RefusedReason.OP_OFFSET_UNREADABLE),
        (op(b"+7", *OP), RefusedReason.OP_OFFSET_UNREADABLE),
        (op(b" 7", *OP), RefusedReason.OP_OFFSET_UNREADABLE),
        (op(b"7\n", *OP), RefusedReason.OP_OFFSET_UNREADABLE),
        (op(b"7.0", *OP), RefusedReason.OP_OFFSET_UNREADABLE),
        (op(b"", *OP), RefusedReason.OP_OFFSET_UNREADABLE),
        (op(b"99999999999999999999", *OP), RefusedReason.OP_OFFSET_UNREADABLE),
        (op(b"3"), RefusedReason.OP_TAG_UNKNOWN),
        (op(b"3", ("TAGS", b"z")), RefusedReason.OP_TAG_UNKNOWN),
        (op(b"3", ("TAGS", b"d"), GROUP, ID), RefusedReason.OP_STATE_UNKNOWN),
        (op(b"3", OP[0], ("COMMIT_OR_ROLLBACK", b"4"), GROUP, ID), RefusedReason.OP_STATE_UNKNOWN),
        (op(b"3", OP[0], OP[1], ID), RefusedReason.OP_WITHOUT_GROUP),
        (op(b"3", OP[0], OP[1], GROUP), RefusedReason.OP_WITHOUT_TRANSACTION_ID),
    ],
)
def test_what_makes_no_sense_is_an_event_with_its_reason_and_origin(
    spark: SparkSession, row: KafkaRow, reason: RefusedReason
) -> None:
    [event] = events(spark, [row])

    expected = EventKind.REFUSED_HALF if row.topic == NAMES.half else EventKind.REFUSED_OP
    assert (event.kind, event.detail) == (expected, reason)
    assert (event.partition, event.offset, event.source_offset) == (1, 5, 5)


def test_a_prefix_does_not_hide_a_system_topic(spark: SparkSession) -> None:
    names = TopicNames("p-")
    row = KafkaRow(
        names.half, 0, 0, 0, b"", [TRAN, GROUP, ID, ("REAL_TOPIC", names.refused.encode())]
    )

    [event] = events(spark, [row], names)

    assert event.detail == RefusedReason.HALF_FOR_SYSTEM_TOPIC


def test_nobody_has_a_final_written_where_the_rules_of_access_control_are(
    spark: SparkSession,
) -> None:
    names = Settings(bootstrap_servers="b:1", acl_file="kafka:acl-rules").topics
    given = [TRAN, GROUP, ID]
    rules = KafkaRow(names.half, 0, 0, 0, b"x", [*given, ("REAL_TOPIC", b"acl-rules")])
    other = KafkaRow(names.half, 0, 1, 0, b"x", [*given, ("REAL_TOPIC", b"acl-rules-too")])

    refused, taken = events(spark, [rules, other], names)

    assert refused.detail == RefusedReason.HALF_FOR_SYSTEM_TOPIC
    assert taken.kind == EventKind.HALF


def feedback(value: bytes | None, *headers: tuple[str, bytes]) -> KafkaRow:
    return KafkaRow(NAMES.feedback, 1, 5, 99, value, list(headers))


def test_of_the_feedback_topic_only_feedback_is_an_event(spark: SparkSession) -> None:
    undelivered, times = ("TAGS", b"u"), ("TRANSACTION_CHECK_TIMES", b"4")

    [event] = events(
        spark,
        [
            feedback(b"", ("TAGS", b"t")),
            feedback(b"12", undelivered, times),
            feedback(b"x", undelivered, times),
            feedback(b"12", undelivered),
            feedback(b"12", *OP),
            KafkaRow(NAMES.feedback, 1, 5, 99, b"12", None),
        ],
    )

    assert (event.kind, event.offset, event.detail) == (EventKind.UNDELIVERED, 12, 4)
    assert (event.partition, event.source_offset) == (1, 5)


@pytest.mark.parametrize("tag", [b"t", b"u"])
def test_on_the_op_topic_nobody_is_believed_to_be_the_pipeline(
    spark: SparkSession, tag: bytes
) -> None:
    [event] = events(spark, [op(b"12", ("TAGS", tag), ("TRANSACTION_CHECK_TIMES", b"4"))])

    assert (event.kind, event.detail) == (EventKind.REFUSED_OP, RefusedReason.OP_TAG_UNKNOWN)


@pytest.mark.parametrize("name", ["REAL_TOPIC\0", "a\0b", "\ufffd"])
def test_a_header_that_another_client_would_read_by_another_name_is_refused(
    spark: SparkSession, name: str
) -> None:
    odd = (name, b"__consumer_offsets")

    in_order = (TRAN, GROUP, ID, TO, IMMUNITY)
    answer = ("FROM_TRANSACTION_CHECK", b"false")
    halves = [half(odd, *in_order), half(*in_order, odd)]
    ops = [op(b"3", odd, *OP), op(b"3", *OP, answer, odd)]

    assert [event.detail for event in events(spark, [*halves, *ops])] == [
        *[RefusedReason.HALF_HEADER_NAME_INVALID] * 2,
        *[RefusedReason.OP_HEADER_NAME_INVALID] * 2,
    ]


@pytest.mark.parametrize(
    ("body", "limit", "refused"), [(4, 4, 0), (5, 4, 10), (0, 4, 9), (None, 4, 0)]
)
def test_a_body_is_neither_empty_nor_too_large(
    spark: SparkSession, body: int | None, limit: int, refused: int
) -> None:
    value = None if body is None else b"x" * body
    row = KafkaRow(NAMES.half, 1, 5, 99, value, [TRAN, GROUP, ID, TO])
    lines = spark.createDataFrame([(row.to_json(),)], "value string")

    rules = replace(RULES, max_message_bytes=limit)
    context: Any = spark.sparkContext
    context.setLocalProperty(TERMS_PROPERTY, TaskTerms(rules).to_property({}))

    [event] = decode(kafka_rows(lines), NAMES, 1024).collect()

    context.setLocalProperty(TERMS_PROPERTY, None)
    assert event.detail == (refused or -1)


def test_a_header_that_is_there_a_hundred_thousand_times_costs_its_look_up_no_more(
    spark: SparkSession,
) -> None:
    many = [("x", b"")] * 100_000

    [event] = events(spark, [half(*many, TRAN, GROUP, ID, TO)])

    assert event.kind == EventKind.HALF


@pytest.mark.parametrize("page", [0, 1, 255, 256, 70_000, 2**40, 2**53 - 1])
def test_a_pages_key_leads_back_to_the_page(spark: SparkSession, page: int) -> None:
    [row] = spark.range(1).select(page_key_of(f.lit(page).cast("long")).alias("key")).collect()

    assert page_of_key(row.key) == page
    assert row.key.to_bytes(8, "little", signed=True) == page.to_bytes(8, "big")


def planned(spark: SparkSession) -> Any:
    """Return Spark's execution of the decoding, as far as the keys of pages."""
    lines = spark.createDataFrame([(half_row(5, time_ms=99).to_json(),)], "value string")
    rows = spark.createDataFrame(kafka_rows(lines).rdd, kafka_rows(lines).schema)
    names = TopicNames("some-prefix-")
    events = packed(decode(rows, names, 1024), 1024)
    keyed: Any = PageKeys(4).put_on(events)
    return keyed._jdf.queryExecution()


def test_the_loop_over_rows_is_small_enough_for_the_jvm_to_compile(spark: SparkSession) -> None:
    """Above 8,000 bytes of bytecode HotSpot never compiles a method (DontCompileHugeMethods)."""
    plan = planned(spark)

    stages = plan.debug().codegenToSeq().mkString("\n")
    sizes = [int(size) for size in re.findall(r"ByteCodeStats\((\d+),", stages)]
    assert sizes
    assert max(sizes) < 8_000


def test_decoding_is_one_compiled_loop_and_hands_on_nothing_of_a_records_size(
    spark: SparkSession,
) -> None:
    """Where a loop ends, its rows are written and read."""
    node, steps = planned(spark).executedPlan(), []
    while node is not None:
        steps.append(node)
        children = node.children()
        node = children.apply(0) if children.size() else None

    [loop] = [step for step in steps if step.nodeName().startswith("WholeStageCodegen")]
    assert loop is steps[0]
    kept = {loop.output().apply(at).name() for at in range(loop.output().size())}
    assert kept.isdisjoint({"key", "value", "headers", "event"})


def test_each_record_is_decoded_once(spark: SparkSession) -> None:
    """Spark may copy a call that it takes for a mere expression: into a condition, say."""
    assert str(planned(spark).optimizedPlan()).count("RecordDecoder") == 1


@pytest.mark.parametrize(
    ("topic", "kind"), [("op", EventKind.REFUSED_OP), ("direct_op", EventKind.OP)]
)
def test_only_the_former_direct_topic_says_delivered(
    spark: SparkSession, topic: str, kind: EventKind
) -> None:
    said = [("TAGS", b"d"), ("COMMIT_OR_ROLLBACK", b"9"), GROUP, ID, ("DIRECT_CLOSED", b"s")]

    [event] = events(spark, [KafkaRow(getattr(NAMES, topic), 1, 5, 99, b"12", said)])

    is_taken = kind == EventKind.OP
    assert event.kind == kind
    assert event.detail == (9 if is_taken else RefusedReason.OP_STATE_UNKNOWN)
    assert event.offset == (12 if is_taken else 5)
    assert event.source_offset == 5 + (BEFORE_OPS if is_taken else 0)
