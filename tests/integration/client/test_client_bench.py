"""`checkback bench client` measures what it says."""

from __future__ import annotations

from pathlib import Path

from tests.integration.client.playing import Checkback

from checkback.bench.client import ClientOptions, create_real_topic, measure_in_turn, ratios

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
