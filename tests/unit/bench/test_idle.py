"""Batches that had nothing but a tick to read: those are measured, and enough of them."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from checkback.bench.event_log import MeasuredBatch
from checkback.bench.idle import BATCHES_LEAST, ticked_ms
from checkback.bench.monitored_process import Launch, MonitoredProcess

EVERY_MS = 50


@dataclass(slots=True)
class Ticked(MonitoredProcess):
    """A process that does nothing; each of its batches with a tick takes 7 ms, the others 900."""

    folder: Path

    def prepare(self) -> Launch:
        command = [sys.executable, "-c", "import time; time.sleep(60)"]
        log = self.folder / "errors.log"
        return Launch("ticked", command, log, dict(os.environ), self.folder)

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
