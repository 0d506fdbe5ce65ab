"""The real stateful query under a clock that the test sets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from tests.spark.harness import MicroBatches, half_row, op_row

from checkback.protocol.configuration import Settings
from checkback.state import Action, Outcome, Rules
from checkback.streaming.pages.page_function import PageSettings
from checkback.streaming.pages.page_key import KEY_COLUMNS, PageKeys, page_key_of

START_MS = 1_000_000
KEYS = PageKeys(1)


def pages(page_size: int = 1024) -> PageSettings:
    return PageSettings(page_size, KEYS)


@pytest.fixture
def micro(spark: SparkSession, tmp_path: Path) -> Iterator[MicroBatches]:
    batches = MicroBatches(spark, pages(), tmp_path / "checkpoint", START_MS)
    yield batches
    batches.stop()


def decided(outcomes: list[Outcome]) -> list[tuple[str, int, int]]:
    """(action, half offset, detail) of all pages, in order of offsets."""
    found = [
        (Action(action).name, offset, detail)
        for outcome in outcomes
        for action, offset, detail in zip(
            outcome.action.tolist(), outcome.offset.tolist(), outcome.detail.tolist(), strict=True
        )
    ]
    return sorted(found, key=lambda one: (one[1], one[0]))


def test_a_silent_half_is_asked_at_its_deadline_then_every_interval_then_discarded(
    micro: MicroBatches,
) -> None:
    micro.add([half_row(7, time_ms=START_MS)])
    micro.start()

    assert decided(micro.advance(6_000)) == []
    assert decided(micro.advance(1_000)) == [("CHECK", 7, 1)]
    assert decided(micro.advance(59_000)) == []
    assert decided(micro.advance(2_000)) == [("CHECK", 7, 2)]
    assert decided(micro.advance(61_000)) == [("DISCARD_CHECK_LIMIT", 7, 2)]


def test_ops_settle_halves_of_this_and_of_earlier_batches(micro: MicroBatches) -> None:
    micro.add(
        [
            half_row(0, time_ms=START_MS),
            half_row(1, time_ms=START_MS),
            half_row(2_000, time_ms=START_MS),
            op_row(0, 1, 12, time_ms=START_MS),
        ]
    )
    micro.start()
    assert decided(micro.outcomes()) == [("ROLLBACK", 1, 0)]

    micro.add(
        [
            op_row(1, 2_000, 8, time_ms=START_MS),
            op_row(2, 0, 8, time_ms=START_MS),
            op_row(3, 5, 8, time_ms=START_MS),
        ]
    )
    assert decided(micro.advance(1_000)) == [("COMMIT", 0, 0), ("COMMIT", 2_000, 0)]

    micro.add([half_row(5, time_ms=START_MS)])
    assert decided(micro.advance(1_000)) == [("COMMIT", 5, 0)]


def test_a_restart_keeps_the_state_and_any_input_brings_the_timeouts_back(
    micro: MicroBatches,
) -> None:
    micro.add([half_row(0, time_ms=START_MS)])
    micro.start()
    micro.stop()

    # What the tick is for: without input Spark fires no timeout after a restart.
    micro.add([half_row(3_000, time_ms=START_MS + 8_000)])
    micro.restart(advance_ms=8_000)

    assert decided(micro.outcomes()) == [("CHECK", 0, 1)]


def test_a_batch_replayed_under_another_clock_decides_as_before(micro: MicroBatches) -> None:
    micro.add([half_row(offset, time_ms=START_MS - 6_500) for offset in range(3)])
    micro.start()
    first = decided(micro.outcomes())
    micro.stop()
    for name in ("0", ".0.crc"):
        (micro.checkpoint / "commits" / name).unlink(missing_ok=True)

    micro.restart(advance_ms=777_000)

    assert first == [("CHECK", offset, 1) for offset in range(3)]
    assert decided(micro.outcomes()) == first


def test_a_clock_set_back_delays_and_loses_nothing(micro: MicroBatches) -> None:
    """Spark takes the batch's time from the machine; deadlines are times, so they only wait."""
    step_ms = 600_000
    micro.add([half_row(offset, time_ms=START_MS - 6_500) for offset in range(3)])
    micro.start()
    found = [decided(micro.outcomes())]
    micro.stop()

    micro.add([op_row(0, 1, 8, time_ms=START_MS), half_row(3, time_ms=START_MS)])
    micro.restart(-step_ms)
    found.append(decided(micro.outcomes()))
    found.append(decided(micro.advance(60_001)))
    found.append(decided(micro.advance(step_ms)))

    assert found[0] == [("CHECK", offset, 1) for offset in range(3)]
    assert found[1] == [("COMMIT", 1, 0)]
    assert found[2] == []
    assert found[3] == [("CHECK", 0, 2), ("CHECK", 2, 2), ("CHECK", 3, 1)]


def test_a_clock_that_is_ahead_of_the_brokers_asks_nobody_early(micro: MicroBatches) -> None:
    micro.clock_ahead_ms = 60_000
    micro.add([half_row(0, time_ms=START_MS)])
    micro.restart(advance_ms=60_000)

    assert decided(micro.outcomes()) == []
    assert decided(micro.advance(6_000)) == []
    assert decided(micro.advance(1_000)) == [("CHECK", 0, 1)]


def test_a_check_storm_is_spread_oldest_page_first_and_holds_no_commit_up(
    spark: SparkSession, micro: MicroBatches
) -> None:
    settings = Settings(transaction_timeout_ms=6_000, checks_per_batch_max=8)
    micro.rules, micro.pages = Rules.from_settings(settings), pages(1)
    offsets = [3, 200, 255, 256, 300, 511, 512, 1_000, 65_535, 65_536, 70_000, 10**7]
    micro.add([half_row(offset, time_ms=START_MS) for offset in reversed(offsets)])
    micro.start()
    found = [decided(micro.advance(7_000))]
    micro.add([half_row(10**8, time_ms=START_MS), op_row(0, 10**8, 8, time_ms=START_MS)])
    found += [decided(micro.advance(1_000)) for _ in range(4)]

    assert ("COMMIT", 10**8, 0) in found[1]
    asked = [[offset for action, offset, _ in batch if action == "CHECK"] for batch in found]
    assert sorted(offset for batch in asked for offset in batch) == offsets
    # Two state partitions, each with half of 8 for the pages whose time has come.
    assert max(len(batch) for batch in asked) <= 8
    placed = placement(spark, offsets)
    for partition in (0, 1):
        order = [offset for batch in asked for offset in batch if placed[offset] == partition]
        assert order == sorted(order)


def placement(spark: SparkSession, pages_of_one: list[int]) -> dict[int, int]:
    """The state partition of each page of half partition 0."""
    rows = spark.createDataFrame([(page, 0) for page in pages_of_one], "page long, partition int")
    keyed = KEYS.put_on(rows.withColumn("page_key", page_key_of(f.col("page"))))
    place = f.pmod(f.hash(*KEY_COLUMNS), f.lit(2))
    return {row.page: row.place for row in keyed.select("page", place.alias("place")).collect()}


def test_no_state_row_stays_for_a_page_with_nothing_to_remember(
    spark: SparkSession, micro: MicroBatches
) -> None:
    settings = Settings(transaction_timeout_ms=6_000, verdict_retention_ms=0)
    micro.rules = Rules.from_settings(settings)
    micro.add([half_row(0, time_ms=START_MS), op_row(0, 0, 8, time_ms=START_MS)])
    micro.start()
    micro.advance(2_000)
    micro.advance(2_000)
    micro.stop()

    session: Any = spark._jsparkSession
    session.streams().active()
    rows = spark.read.format("statestore").load(str(micro.checkpoint))
    assert rows.count() == 0
