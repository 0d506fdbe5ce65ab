"""`checkback bench client` and `checkback bench direct` measure what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.client.playing import Checkback

from checkback.bench.client import ClientOptions, create_real_topic, measure_in_turn, ratios
from checkback.bench.direct import (
    CHECKED,
    CHECKED_UNREAD,
    DIRECT,
    UNREAD,
    DirectOptions,
    measure_direct,
)

SOURCES = Path(__file__).parents[3] / "src"


def test_all_kinds_are_measured_in_turn(checkback: Checkback) -> None:
    create_real_topic(checkback.bootstrap_servers, checkback.prefix, 4)
    create_real_topic(checkback.bootstrap_servers, checkback.prefix, 4)  # again: no effect
    chosen = ClientOptions(
        topic_prefix=checkback.prefix,
        threads="2",
        transactions=100,
        rounds=1,
        in_flight=4,
        before_dir=SOURCES,
    )

    runs = measure_in_turn(chosen, checkback.bootstrap_servers)

    counts = {run.kind: run.transactions for run in runs}
    assert counts == {"floor": 100, "client": 100, "asyncio": 100, "before": 100}
    assert [one.measure for one in ratios(runs)] == [
        "client_to_floor", "time_to_floor", "client_to_before"
    ]  # fmt: skip
    warm_up = 2 * 5 + 4 * 2 + 2 * 5  # a tenth of what each thread or coroutine sends
    assert len(checkback.halves(300 + warm_up)) == 300 + warm_up


@pytest.mark.nightly  # a pipeline and six measurements, of the bench alone
def test_direct_delivery_is_measured_beside_the_checked_way(checkback: Checkback) -> None:
    create_real_topic(checkback.bootstrap_servers, checkback.prefix, 4)
    chosen = DirectOptions(
        topic_prefix=checkback.prefix,
        rates="50",
        lanes="1",
        seconds=1,
        warm_up_seconds=0,
        threads=2,
        transactions=100,
        rounds=1,
        kills=1,
    )

    found = measure_direct(chosen, checkback.bootstrap_servers)

    assert [(run.kind, run.per_s) for run in found.runs] == [
        (DIRECT, 50), (DIRECT, 0), (UNREAD, 0), (CHECKED_UNREAD, 0), (CHECKED, 50), (CHECKED, 0),
    ]  # fmt: skip
    read = [run for run in found.runs if run.kind in (DIRECT, CHECKED)]
    assert all(run.visible_p50_ms is not None for run in read)
    assert set(found.direct_to_plain) == {1}
    assert len(found.stalls_s) == 1
