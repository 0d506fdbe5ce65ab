"""Instruments: the table's metrics, filled by name."""

from __future__ import annotations

import pytest

from checkback.metrics.instruments import COUNTED, Instruments
from checkback.metrics.table import FINISH_BUCKETS_S


def test_a_histogram_takes_counts_by_bucket() -> None:
    fill = Instruments()
    counts = [0] * (len(FINISH_BUCKETS_S) + 1)
    counts[1], counts[-1] = 3, 1
    fill.add_counts(COUNTED, counts, 100.5)
    fill.add_counts(COUNTED, counts, 1.0)
    value = fill.registry.get_sample_value

    assert value(f"{COUNTED}_bucket", {"le": "0.5"}) == 0
    assert value(f"{COUNTED}_bucket", {"le": "1.0"}) == 6
    assert value(f"{COUNTED}_bucket", {"le": "86400.0"}) == 6
    assert value(f"{COUNTED}_bucket", {"le": "+Inf"}) == 8
    assert value(f"{COUNTED}_count") == 8
    assert value(f"{COUNTED}_sum") == 101.5


def test_a_watched_gauge_is_looked_up_when_somebody_asks() -> None:
    fill, ages = Instruments(), iter([1.0, 2.0])
    fill.watch("checkback_oldest_pending_age_seconds", lambda: next(ages))

    asked = [fill.registry.get_sample_value("checkback_oldest_pending_age_seconds") for _ in "ab"]
    assert asked == [1.0, 2.0]


def test_a_name_that_the_table_does_not_have_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        Instruments().add("checkback_nothing")
