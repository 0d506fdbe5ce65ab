"""The key of a page: oldest first in the store, evenly over the state partitions."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from checkback.checkpoints.own_files.identity import CheckpointIdentity
from checkback.streaming.pages.page_key import (
    KEY_COLUMNS,
    PageKeys,
    page_key_of,
)

PAGES_OF_A_BATCH = range(30)
HALF_PARTITIONS = range(4)
IN_TURN = PageKeys(len(HALF_PARTITIONS))
ODD_PLACES = [
    (0, 0),
    (65_535, 1),
    (65_536, 65_535),
    (2**31 - 1, 7),
    (2**32 + 5, 65_535),
    (2**51 - 1, 3),
]


def keyed(
    spark: SparkSession, places: list[tuple[int, int]], keys: PageKeys = IN_TURN
) -> DataFrame:
    rows = spark.createDataFrame(places, "page long, partition int")
    return keys.put_on(rows.withColumn("page_key", page_key_of(f.col("page"))))


def key_of(row: Any) -> tuple[Any, ...]:
    return tuple(row[name] for name in KEY_COLUMNS)


@pytest.mark.parametrize("state_partitions", [2, 3, 7, 16, 64])
def test_the_pages_of_a_batch_take_turns(spark: SparkSession, state_partitions: int) -> None:
    first = {0: 17, 1: 4_000, 2: 0, 3: 123_456}
    places = [
        (first[partition] + page, partition)
        for page in PAGES_OF_A_BATCH
        for partition in HALF_PARTITIONS
    ]

    pages = keyed(spark, places)
    handed_out = pages.repartition(state_partitions, *KEY_COLUMNS)
    found = Counter(
        row.at for row in handed_out.select(f.spark_partition_id().alias("at")).collect()
    )

    share = len(places) / state_partitions
    assert sum(found.values()) == len(places)
    # Those of a half partition to within one; by a hash one of 16 had 13 instead of 7 or 8.
    assert max(found.values()) < share + math.ceil(
        len(HALF_PARTITIONS) / math.gcd(len(HALF_PARTITIONS), state_partitions)
    )
    assert min(found.values()) > share - len(HALF_PARTITIONS)


def test_a_key_tells_page_and_half_partition(spark: SparkSession) -> None:
    rows = keyed(spark, ODD_PLACES).collect()

    assert [IN_TURN.place_of(key_of(row)) for row in rows] == ODD_PLACES


def test_a_half_partition_that_was_added_has_keys_too(spark: SparkSession) -> None:
    places = [(page, partition) for page in (0, 1, 2) for partition in range(9)]

    rows = keyed(spark, places).collect()

    assert [IN_TURN.place_of(key_of(row)) for row in rows] == places


def test_a_key_is_for_ever(spark: SparkSession) -> None:
    """It stands in checkpoints: these were made by the first version that had them."""
    rows = keyed(spark, [(1, 0), (4_711, 3)]).collect()

    assert [row.turn for row in rows] == [1_749_873_620, 2_117_097_169]


def test_with_order_all_pages_of_a_half_partition_are_in_one_state_partition(
    spark: SparkSession,
) -> None:
    identity = CheckpointIdentity(1, "app", "c", 4_096, 3, "h", "o", "s", 4, order="key")
    ordered = PageKeys.of(identity)
    places = [(page, partition) for page in (0, 1, 7, 70_000, 2**40) for partition in range(8)]

    pages = keyed(spark, places, ordered).repartition(3, *KEY_COLUMNS)

    rows = pages.select(*KEY_COLUMNS, f.spark_partition_id().alias("at")).collect()
    found = {(*ordered.place_of(key_of(row)), row.at) for row in rows}
    assert found == {(page, partition, partition % 3) for page, partition in places}
