"""What a pipeline with little to do costs, as the bench tells it."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from checkback.bench.probe import Visibility
from checkback.bench.processes import Sample, Watch
from checkback.bench.quiet import Quiet, cores_while, quiet_measures


def visibility(*taken_ms: float) -> Visibility:
    sent = np.arange(len(taken_ms), dtype=np.float64)
    return Visibility(sent, sent + np.array(taken_ms))


def test_cores_are_those_of_the_job_without_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([100.0, 110.0])
    monkeypatch.setattr(time, "time", lambda: next(times))
    watch = Watch(())
    watch.samples = [
        Sample(100_000, {"driver": 1.0, "jvm": 5.0, "broker": 3.0}),
        Sample(110_000, {"driver": 1.1, "jvm": 5.3, "broker": 9.0}),
    ]
    query: Any = SimpleNamespace(watch=watch)

    assert cores_while(query, lambda: None) == pytest.approx(0.04)


def test_a_lone_commit_is_compared_with_one_that_finds_the_pipeline_awake() -> None:
    found = [
        Quiet(0.04, 0.15, visibility(300, 330, 900), visibility(290, 300, 310)),
        Quiet(0.06, 0.25, visibility(420), visibility(300)),
        Quiet(0.05, 0.20, visibility(300), visibility(300)),
    ]

    measures = {one.name: one for one in quiet_measures(found, 10_000)}

    assert {name: one.value for name, one in measures.items()} == {
        "idle_cores": 0.05, "low_rate_cores": 0.2, "lone_commit_to_awake": pytest.approx(1.1),
    }  # fmt: skip
    assert {one.result for one in measures.values()} == {"ok"}
