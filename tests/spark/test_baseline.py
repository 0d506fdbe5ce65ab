"""What the job is compared with writes the same finals, or the comparison says nothing."""

from __future__ import annotations

from bench.runs.baseline import finals_of
from bench.runs.workload import Workload, commits_among
from pyspark.sql import SparkSession
from tests.spark.harness import NAMES, KafkaRow, kafka_rows

from checkback.protocol.configuration import Settings
from checkback.protocol.records import final_parts

WORKLOAD = Workload(seed=7, body_bytes=8, real_topic="orders")
HALVES = 20


def rows_of_a_partition(partition: int) -> list[KafkaRow]:
    """Its halves with their ops; every op says commit, since the baseline does not look at them."""
    bodies, rows = WORKLOAD.bodies(partition), []
    for offset in range(HALVES):
        op = WORKLOAD.op(partition, offset)
        headers = WORKLOAD.half_headers(partition, offset)
        body, key = next(bodies), b"k%d" % offset
        rows += [
            KafkaRow(NAMES.half, partition, offset, 1, body, headers, key),
            KafkaRow(NAMES.op, partition, offset, 2, op.value(), op.headers(), op.key()),
        ]
    return rows


def test_finals_are_those_of_the_job(spark: SparkSession) -> None:
    rows = rows_of_a_partition(3)
    lines = spark.createDataFrame([(row.to_json(),) for row in rows], "value string")

    found = finals_of(kafka_rows(lines), Settings(), WORKLOAD.seed, "stateless").collect()

    halves = [row for row in rows if row.topic == NAMES.half and WORKLOAD.commits(row.offset)]
    assert len(halves) == commits_among(WORKLOAD.seed, HALVES) < HALVES
    wanted = {row.key: (row.value, final_headers(row)) for row in halves}
    assert {
        bytes(row.key): (
            bytes(row.value),
            sorted((one.key, bytes(one.value)) for one in row.headers),
        )
        for row in found
    } == wanted
    assert {row.topic for row in found} == {"stateless"}


def final_headers(half: KafkaRow) -> list[tuple[str, bytes]]:
    headers = [(name, value or b"") for name, value in half.headers or []]
    return sorted(final_parts(headers, half.partition, half.offset).headers)
