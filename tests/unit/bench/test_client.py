"""The bench of the client: what is run in turn, and the ratios of neighbours."""

from __future__ import annotations

from typing import Any

import pytest
from bench.__main__ import parse
from bench.client import CLIENT, FLOOR, planned_runs, ratios

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import UsageError


def measured(kind: str, per_s: float, p50_ms: float) -> dict[str, Any]:
    return {"kind": kind, "threads": 8, "transactions_per_s": per_s, "latency_p50_ms": p50_ms}


def test_a_ratio_is_one_of_neighbours() -> None:
    runs = [
        measured(FLOOR, 100, 1.0), measured(CLIENT, 50, 1.5),
        measured(FLOOR, 10, 2.0), measured(CLIENT, 8, 2.0),
    ]  # fmt: skip
    found = {
        ratio["measure"]: (ratio["median"], ratio["least"], ratio["most"]) for ratio in ratios(runs)
    }
    assert found == {
        "client_to_floor": (0.65, 0.5, 0.8),
        "time_to_floor": (1.25, 1.0, 1.5),
    }


def test_a_single_thread_sends_no_more_than_it_can_in_a_moment() -> None:
    options = parse(["client", "--threads", "1,64", "--transactions", "64000"])
    runs = planned_runs(options, Settings())
    assert [(run.threads, run.transactions) for run in runs] == [(1, 4_000), (64, 1_000)]


def test_threads_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(UsageError, match="--threads is '8,x'"):
        planned_runs(parse(["client", "--threads", "8,x"]), Settings())
