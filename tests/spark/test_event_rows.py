"""Event rows on their way from the JVM to the Python workers."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest
from pyspark.sql import SparkSession

from checkback.state import PAGE_SIZE_MAX, EventKind, Events
from checkback.streaming.pages.event_columns import DETAIL_MAX, packed, unpacked

SCHEMA = (
    "page_key long, partition int, kind byte, offset long, time_ms long, identity long, "
    "detail long, source_offset long, identity_rest long"
)
LARGE = 2**62


def travelled(
    spark: SparkSession, rows: list[tuple[int, ...]], page: int, page_size: int
) -> Events:
    """Return what a worker sees of the columns of Events, row by row."""
    frame = spark.createDataFrame([(page, 3, *map(int, row)) for row in rows], SCHEMA)
    return unpacked(packed(frame, page_size).toPandas(), page * page_size)


@pytest.mark.parametrize("page_size", [1, 1_000, PAGE_SIZE_MAX])
def test_what_is_packed_arrives_as_it_was(spark: SparkSession, page_size: int) -> None:
    page = 123_456_789
    first, last = page * page_size, (page + 1) * page_size - 1
    rows: list[tuple[int, ...]] = [
        (EventKind.HALF, first, 0, -1, -1, first, 2**32 - 1),
        (EventKind.HALF, last, LARGE, -LARGE, DETAIL_MAX, last, 0),
        (EventKind.OP, last, 1, 0, 12, 7, 5),
        (EventKind.UNDELIVERED, first, 2, LARGE, -DETAIL_MAX, LARGE, 6),
        (EventKind.REFUSED_OP, last, 3, 5, 0, last, 7),
    ]

    events = travelled(spark, rows, page, page_size)

    assert list(zip(*(column.tolist() for column in astuple(events)), strict=True)) == rows
    assert events.kind.dtype == np.uint8


@pytest.mark.parametrize("detail", [DETAIL_MAX + 1, LARGE, 2**63 - 1])
def test_a_detail_that_does_not_fit_is_cut(spark: SparkSession, detail: int) -> None:
    row = (EventKind.HALF, 5, 6, 7, detail, 5, 0)
    below = (EventKind.UNDELIVERED, 5, 6, 7, -detail, 5, 0)

    events = travelled(spark, [row, below], page=0, page_size=8)

    assert events.detail.tolist() == [DETAIL_MAX, -DETAIL_MAX]
    assert (events.kind.tolist(), events.offset.tolist()) == ([1, 3], [5, 5])
