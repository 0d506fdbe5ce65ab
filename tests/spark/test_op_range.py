"""Ops and feedback on halves that can't be there go no further than decoding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.harness import NAMES, RULES, KafkaRow, kafka_rows, op_row

from checkback.checkpoints.own_files.batch_terms import OpRange
from checkback.protocol.refusals import RefusedReason
from checkback.state import EventKind
from checkback.streaming.batch.terms import TaskTerms
from checkback.streaming.source.decode import decode
from checkback.streaming.spark.java_protocol import TERMS_PROPERTY

COMMIT, NO_VERDICT, ROLLBACK = 8, 0, 12


@pytest.fixture
def ranges(spark: SparkSession) -> Iterator[Any]:
    context = spark.sparkContext
    yield lambda found: context.setLocalProperty(
        TERMS_PROPERTY, TaskTerms(RULES).to_property(found)
    )
    context.setLocalProperty(TERMS_PROPERTY, None)  # type: ignore[arg-type]


def refused(spark: SparkSession, *named: tuple[int, int], state: int = COMMIT) -> list[int]:
    """Decode an op for each half partition and offset; return which were refused."""
    rows = [
        op_row(at, offset, state, time_ms=9, partition=partition).to_json()
        for at, (partition, offset) in enumerate(named)
    ]
    lines = spark.createDataFrame([(row,) for row in rows], "value string").coalesce(1)
    found = decode(kafka_rows(lines), NAMES, 8).collect()
    bad = [event for event in found if event.kind == EventKind.REFUSED_OP]
    assert {event.detail for event in bad} <= {RefusedReason.OP_WITHOUT_HALF}
    assert all(event.offset == event.source_offset for event in bad)
    return sorted(event.source_offset for event in bad)


@pytest.mark.parametrize("state", [COMMIT, NO_VERDICT, ROLLBACK])
def test_an_op_is_refused_that_names_what_is_forgotten_or_what_nobody_can_have_written(
    spark: SparkSession, ranges: Any, state: int
) -> None:
    ranges({0: OpRange(50, 200)})
    named = ((0, 199), (0, 200), (0, 2**63 - 1), (0, 0), (0, 49), (0, 50))

    assert refused(spark, *named, state=state) == [1, 2, 3, 4]


def test_each_partition_has_its_range_and_an_unknown_one_any(
    spark: SparkSession, ranges: Any
) -> None:
    ranges({0: OpRange(50, 200), 2: OpRange(0, 10)})

    assert refused(spark, (0, 10), (1, 2**62), (2, 10), (2, 9), (7, 5)) == [0, 2]


def test_feedback_that_names_such_a_half_is_passed_over(spark: SparkSession, ranges: Any) -> None:
    """Each would cost a page: 60,000 of them held a healthy message back for two minutes."""
    ranges({0: OpRange(50, 200)})
    headers: list[tuple[str, bytes | None]] = [("TAGS", b"u"), ("TRANSACTION_CHECK_TIMES", b"1")]
    rows = [
        KafkaRow(NAMES.feedback, partition, 5, 9, str(offset).encode(), headers)
        for partition, offset in ((0, 199), (0, 200), (0, 2**62), (0, 49), (0, 50), (7, 2**62))
    ]
    lines = spark.createDataFrame([(row.to_json(),) for row in rows], "value string").coalesce(1)

    found = decode(kafka_rows(lines), NAMES, 8).collect()

    assert [(event.partition, event.offset) for event in found] == [(0, 199), (0, 50), (7, 2**62)]
    assert {event.kind for event in found} == {EventKind.UNDELIVERED}


@pytest.mark.parametrize("found", [None, {}])
def test_where_no_range_is_known_no_op_is_refused(
    spark: SparkSession, ranges: Any, found: dict[int, OpRange] | None
) -> None:
    if found is not None:
        ranges(found)

    assert refused(spark, (0, 0), (3, 2**62)) == []
