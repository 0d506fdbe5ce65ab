"""`python -m bench client` measures what it says."""

from __future__ import annotations

from pathlib import Path

from bench.__main__ import parse
from bench.client import measure_client
from tests.integration.client.playing import Checkback

SOURCES = Path(__file__).parents[3] / "src"


def test_all_kinds_are_measured_in_turn(checkback: Checkback) -> None:
    options = parse(
        [
            "client", "--topic-prefix", checkback.prefix, "--threads", "2", "--transactions", "100",
            "--rounds", "1", "--in-flight", "4", "--before-dir", str(SOURCES),
        ]
    )  # fmt: skip

    result = measure_client(options, checkback.bootstrap_servers)

    counts = {run["kind"]: run["transactions"] for run in result["runs"]}
    assert counts == {"floor": 100, "client": 100, "asyncio": 100, "before": 100}
    assert [ratio["measure"] for ratio in result["ratios"]] == [
        "client_to_floor", "time_to_floor", "client_to_before"
    ]  # fmt: skip
    warm_up = 2 * 5 + 4 * 2 + 2 * 5  # a tenth of what each thread or coroutine sends
    assert len(checkback.halves(300 + warm_up)) == 300 + warm_up
