"""From Kafka rows to event rows, on static data."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from tests.spark.harness import NAMES, KafkaRow, half_row, kafka_rows, op_row

from checkback.protocol.refusals import RefusedReason
from checkback.protocol.topics import TopicNames
from checkback.state import EventKind
from checkback.streaming.decode import decode
from checkback.streaming.event_rows import packed
from checkback.streaming.page_keys import PageKeys, page_key_of, page_of_key

TRAN = ("TRAN_MSG", b"true")
GROUP = ("PGROUP", b"g")
ID = ("UNIQ_KEY", b"u")
TO = ("REAL_TOPIC", b"orders")
OP = [("TAGS", b"d"), ("COMMIT_OR_ROLLBACK", b"8"), GROUP, ID]


def events(spark: SparkSession, rows: list[KafkaRow], names: TopicNames = NAMES) -> list[Any]:
    lines = spark.createDataFrame([(row.to_json(),) for row in rows], "value string")
    return decode(kafka_rows(lines), names, 1024).collect()


def half(*headers: tuple[str, bytes], offset: int = 5) -> KafkaRow:
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
            half(
                ("x", b"1"),
                TO,
                ("CHECK_IMMUNITY_TIME_IN_SECONDS", b"30"),
                ID,
                GROUP,
                TRAN,
            ),
        ],
    )

    assert ordered == shuffled


def test_another_group_shows_in_the_top_16_bits_another_id_below(spark: SparkSession) -> None:
    own, other_group, other_id = events(
        spark,
        [
            half(TRAN, GROUP, ID, TO),
            half(TRAN, ("PGROUP", b"h"), ID, TO),
            half(TRAN, GROUP, ("UNIQ_KEY", b"v"), TO),
        ],
    )

    assert own.identity >> 48 == other_id.identity >> 48 != other_group.identity >> 48
    assert own.identity != other_id.identity


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
        (op(None, *OP), RefusedReason.OP_OFFSET_UNREADABLE),
        (op(b"x", *OP), RefusedReason.OP_OFFSET_UNREADABLE),
        (op(b"-3", *OP), RefusedReason.OP_OFFSET_UNREADABLE),
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


def test_a_tick_is_no_event_and_a_feedback_carries_its_count(spark: SparkSession) -> None:
    feedback = op(b"12", ("TAGS", b"u"), ("TRANSACTION_CHECK_TIMES", b"4"))

    [event] = events(spark, [op(b"", ("TAGS", b"t")), feedback])

    assert (event.kind, event.offset, event.detail) == (EventKind.UNDELIVERED, 12, 4)


@pytest.mark.parametrize("page", [0, 1, 255, 256, 70_000, 2**40, 2**53 - 1])
def test_a_pages_key_leads_back_to_the_page(spark: SparkSession, page: int) -> None:
    [row] = spark.range(1).select(page_key_of(f.lit(page).cast("long")).alias("key")).collect()

    assert page_of_key(row.key) == page
    assert row.key.to_bytes(8, "little", signed=True) == page.to_bytes(8, "big")


def test_the_loop_over_rows_is_small_enough_for_the_jvm_to_compile(spark: SparkSession) -> None:
    """Above 8,000 bytes of bytecode HotSpot never compiles a method (DontCompileHugeMethods)."""
    lines = spark.createDataFrame([(half_row(5, time_ms=99).to_json(),)], "value string")
    rows = spark.createDataFrame(kafka_rows(lines).rdd, kafka_rows(lines).schema)

    events = packed(decode(rows, TopicNames("some-prefix-"), 1024), 1024)
    keyed: Any = PageKeys(4).put_on(events)

    plan = keyed._jdf.queryExecution()
    stages = plan.debug().codegenToSeq().mkString("\n")
    sizes = [int(size) for size in re.findall(r"ByteCodeStats\((\d+),", stages)]
    assert sizes
    assert max(sizes) < 8_000
