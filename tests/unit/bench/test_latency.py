"""Batches that had nothing but a tick to read, and the cores of a pipeline."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bench.latency import BATCHES_LEAST, cores_while, ticked_ms
from bench.runs.batches import MeasuredBatch
from bench.runs.query import MonitoredProcess
from bench.runs.samples import ProcessWatch, Sample
from bench.runs.trial import BenchSetting

from checkback.protocol.configuration import Settings

EVERY_MS = 50


@dataclass(slots=True)
class Ticked(MonitoredProcess):
    """A process that does nothing; each of its batches with a tick takes 7 ms, the others 900."""

    def command(self) -> list[str]:
        return [sys.executable, "-c", "import time; time.sleep(60)"]

    def batches(self) -> list[MeasuredBatch]:
        ran_ms = time.time() * 1_000 - self.launched_ms
        return [
            MeasuredBatch(number, round(self.launched_ms) + number * EVERY_MS, took_ms, rows)
            for number in range(round(ran_ms / EVERY_MS))
            for took_ms, rows in ((7, 1), (900, 0))
        ]


def test_only_batches_with_a_tick_count_and_there_are_enough_of_them(tmp_path: Path) -> None:
    trial = BenchSetting(Settings(), tmp_path, 7, 64).trial("latency")
    with Ticked(trial, "ticked") as query:
        begun_ms = time.time() * 1_000

        assert ticked_ms(query, 0.01) == 7

        assert time.time() * 1_000 - begun_ms >= (BATCHES_LEAST - 2) * EVERY_MS


def test_cores_are_those_of_the_job_without_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([100.0, 110.0])
    monkeypatch.setattr(time, "time", lambda: next(times))
    watch = ProcessWatch(0)
    watch.samples = [
        Sample(100_000, {"driver": 1.0, "jvm": 5.0, "broker": 3.0}, {}, 0),
        Sample(110_000, {"driver": 1.1, "jvm": 5.3, "broker": 9.0}, {}, 0),
    ]
    query: Any = SimpleNamespace(watch=watch)

    assert cores_while(query, lambda: None) == pytest.approx(0.04)
