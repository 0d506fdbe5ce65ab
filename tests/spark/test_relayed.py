"""What a rebuild takes from the decided topic, and leaves of the op topic."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from checkback.checkpoints.own_files.relay_terms import RelaySpan
from checkback.operations.rebuild.relayed import spans_on, without_relayed
from checkback.protocol.decided import (
    Closed,
    OpKind,
    PartitionNote,
    RelayMark,
    Taken,
    note_headers,
    note_value,
    passed_headers,
)

TYPE = "partition int, offset long, value binary, headers array<struct<key: string, value: binary>>"


def said(partition: int, offset: int, note: PartitionNote) -> tuple[Any, ...]:
    return partition, offset, note_value(note), note_headers(note)


def test_the_spans_follow_from_all_that_is_said_of_partitions(spark: SparkSession) -> None:
    rows = [
        said(0, 0, Taken(10, 5)),
        said(0, 3, RelayMark(12, 5, 1, 10, 5)),
        (0, 4, b"5", passed_headers([], OpKind.PASSED, 10)),
        said(0, 9, Closed(20)),
        said(0, 12, Taken(30, 25, "id")),
        said(0, 13, Closed(40, "of a former op topic")),
        said(1, 7, RelayMark(4, 2, 1, 3, 2)),  # what it repeats has expired
        (2, 0, None, None),
    ]

    spans = spans_on(spark.createDataFrame(rows, TYPE), "id")

    assert spans == {
        0: (RelaySpan(10, 5, 20, 9), RelaySpan(30, 25)),
        1: (RelaySpan(3, 2),),
    }


def test_ops_that_relays_took_are_left_out(spark: SparkSession) -> None:
    ops = spark.createDataFrame(
        [(at, op) for at in range(3) for op in range(5)], "partition int, offset long"
    )
    spans = {0: (RelaySpan(1, 0, 3, 9), RelaySpan(4, 0)), 1: (RelaySpan(2, 0),)}

    left = without_relayed(ops, spans).collect()

    wanted = {0: [0, 3], 1: [0, 1], 2: [0, 1, 2, 3, 4]}
    assert [tuple(row) for row in left] == [(at, op) for at, ops in wanted.items() for op in ops]
