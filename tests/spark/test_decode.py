"""From Kafka rows to event rows, on static data."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from pyspark.sql import SparkSession
from tests.spark.harness import NAMES, KafkaRow, half_row, kafka_rows

from checkback.checkpoints.pending.pending_halves import group_tag
from checkback.protocol.configuration import Settings
from checkback.protocol.refusals import RefusedReason
from checkback.protocol.topics import TopicNames
from checkback.state import EventKind
from checkback.state.formats.identity import group_part, identity_words
from checkback.streaming.pages.event_columns import packed
from checkback.streaming.pages.page_key import PageKeys
from checkback.streaming.source.decode import decode

TRAN = ("TRAN_MSG", b"true")
GROUP = ("PGROUP", b"g")
ID = ("UNIQ_KEY", b"u")
TO = ("REAL_TOPIC", b"orders")


def events(spark: SparkSession, rows: list[KafkaRow], names: TopicNames = NAMES) -> list[Any]:
    lines = spark.createDataFrame([(row.to_json(),) for row in rows], "value string")
    return decode(kafka_rows(lines), names, 1024).collect()


def half(*headers: tuple[str, bytes | None], offset: int = 5) -> KafkaRow:
    return KafkaRow(NAMES.half, 1, offset, 99, b"body", list(headers))


def test_where_the_group_ends_and_the_id_begins_makes_another_identity() -> None:
    first, second = identity_words(b"ab", b"c"), identity_words(b"a", b"bc")

    assert first[0] & 2**48 - 1 != second[0] & 2**48 - 1
    assert first[1] != second[1]


def test_the_halves_of_a_group_are_found_by_its_name(spark: SparkSession) -> None:
    own, other = events(spark, [half(TRAN, GROUP, ID, TO), half(TRAN, ("PGROUP", b"h"), ID, TO)])

    assert group_part(np.array(own.identity)) == group_tag("g")
    assert group_part(np.array(other.identity)) == group_tag("h") != group_tag("g")


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


def test_a_header_that_is_there_a_hundred_thousand_times_costs_its_look_up_no_more(
    spark: SparkSession,
) -> None:
    many = [("x", b"")] * 100_000

    [event] = events(spark, [half(*many, TRAN, GROUP, ID, TO)])

    assert event.kind == EventKind.HALF


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
