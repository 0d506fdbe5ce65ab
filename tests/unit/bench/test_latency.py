"""Batches that had nothing but a tick to read, and a pipeline with little to do."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from bench.latency import BATCHES_LEAST, Quiet, cores_while, quiet_values, ticked_ms
from bench.runs.batches import MeasuredBatch
from bench.runs.probe import Visibility
from bench.runs.query import Launch, MonitoredProcess
from bench.runs.samples import CpuSample, ProcessWatch

EVERY_MS = 50


@dataclass(slots=True)
class Ticked(MonitoredProcess):
    """A process that does nothing; each of its batches with a tick takes 7 ms, the others 900."""

    folder: Path

    def prepare(self) -> Launch:
        command = [sys.executable, "-c", "import time; time.sleep(60)"]
        log = self.folder / "errors.log"
        return Launch("ticked", command, log, dict(os.environ))

    def batches(self) -> list[MeasuredBatch]:
        ran_ms = time.time() * 1_000 - self.launched_ms
        return [
            MeasuredBatch(number, round(self.launched_ms) + number * EVERY_MS, took_ms, rows)
            for number in range(round(ran_ms / EVERY_MS))
            for took_ms, rows in ((7, 1), (900, 0))
        ]


def test_only_batches_with_a_tick_count_and_there_are_enough_of_them(tmp_path: Path) -> None:
    with Ticked(tmp_path) as query:
        begun_ms = time.time() * 1_000

        assert ticked_ms(query, 0.01) == 7

        assert time.time() * 1_000 - begun_ms >= (BATCHES_LEAST - 2) * EVERY_MS


def visibility(*taken_ms: float) -> Visibility:
    sent = np.arange(len(taken_ms), dtype=np.float64)
    return Visibility(sent, sent + np.array(taken_ms))


def test_cores_are_those_of_the_job_without_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([100.0, 110.0])
    monkeypatch.setattr(time, "time", lambda: next(times))
    watch = ProcessWatch(())
    watch.samples = [
        CpuSample(100_000, {"driver": 1.0, "jvm": 5.0, "broker": 3.0}),
        CpuSample(110_000, {"driver": 1.1, "jvm": 5.3, "broker": 9.0}),
    ]
    query: Any = SimpleNamespace(watch=watch)

    assert cores_while(query, lambda: None) == pytest.approx(0.04)


def test_a_lone_commit_is_compared_with_one_that_finds_the_pipeline_awake() -> None:
    found = [
        Quiet(0.04, 0.15, visibility(300, 330, 900), visibility(290, 300, 310)),
        Quiet(0.06, 0.25, visibility(420), visibility(300)),
        Quiet(0.05, 0.20, visibility(300), visibility(300)),
    ]

    assert quiet_values(found) == {
        "idle_cores": [0.04, 0.06, 0.05],
        "low_rate_cores": [0.15, 0.25, 0.20],
        "lone_commit_to_awake": [pytest.approx(1.1), pytest.approx(1.4), pytest.approx(1.0)],
    }
