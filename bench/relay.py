"""``python -m bench relay``: from commit to visible message with a relay, at steady rates.

The relay runs without a job: the run writes what the job's start would write, and keeps no order
of keys, for which a relay needs the job's answers. So the figures are the relay's own.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from bench.latency import cores_while
from bench.result import Measure
from bench.runs.batches import MeasuredBatch
from bench.runs.probe import Visibility, visibility
from bench.runs.query import START_TIMEOUT_S, MonitoredProcess
from bench.setting import Bench, Option, say
from checkback.deploy.settings import write_settings
from checkback.protocol.decided import Taken, note_headers, note_value
from checkback.sinks.records.sink_record import sent_headers

RATES: Final = (100.0, 1_000.0, 2_000.0)
WARM_UP_S: Final = 5.0
OPTIONS: Final = (
    Option("body_bytes", 1_024, None, "Message size."),
    Option("seconds", 30.0, 3.0, "Duration of a repetition at one rate."),
    Option("runs", 3, 1, "Repetitions."),
)


@dataclass(slots=True)
class RelayRun(MonitoredProcess):
    """One relay."""

    def command(self) -> Sequence[str]:
        """Write the relay's configuration; return the command that starts it."""
        config = self.folder / "checkback.toml"
        write_settings(config, self.trial.settings)
        program = str(Path(sys.executable).parent / "checkback")
        return [program, "relay", "--config", str(config), "--output", "json"]

    def batches(self) -> list[MeasuredBatch]:
        """Return none: a relay has no batches."""
        return []


class RelayBench(Bench):
    """The repetitions of one call."""

    __slots__ = ()

    def measure(self) -> list[Measure]:
        """Do all runs; return the measures."""
        settings = replace(self.stage.settings, relay=True, order="none")
        self.stage = replace(self.stage, settings=settings)
        trial = self.stage.trial("relay").create()
        producer = Producer({**trial.stage.connection})
        for partition in range(trial.settings.half_partitions):
            note = Taken(0, 0)
            producer.produce(
                trial.settings.topics.decided, note_value(note), None, partition,
                headers=sent_headers(note_headers(note)),
            )  # fmt: skip
        producer.flush(30)
        values: dict[str, list[float]] = {}
        with RelayRun(trial, "relay") as run:
            run.wait_until(lambda: has_started(run), START_TIMEOUT_S)
            visibility(run, RATES[1], WARM_UP_S, has_rollbacks=False, linger_ms=0)
            for number in range(self.options.runs):
                for name, value in self._repetition(run, number).items():
                    values.setdefault(name, []).append(value)
            run.stop()
        trial.delete()
        size = int(sum(RATES) * self.options.seconds * self.options.runs)
        return [Measure(name, found, size) for name, found in values.items()]

    def _repetition(self, run: RelayRun, number: int) -> dict[str, float]:
        found = {
            "relay_idle_cores": cores_while(run, lambda: run.run_for(self.options.seconds / 2))
        }
        for rate in RATES:
            seen: list[Visibility] = []

            def probe(rate: float = rate, seen: list[Visibility] = seen) -> None:
                seen.append(
                    visibility(run, rate, self.options.seconds, has_rollbacks=False, linger_ms=0)
                )

            cores = cores_while(run, probe)
            times = steady(seen[0])
            found[f"relay_p50_at_{rate:.0f}"] = times.quantile_ms(0.5)
            found[f"relay_p99_at_{rate:.0f}"] = times.quantile_ms(0.99)
            found[f"relay_cores_at_{rate:.0f}"] = cores
            say(
                f"relay {number}, {rate:,.0f} a second: p50 {times.quantile_ms(0.5):.1f} ms, p99"
                f" {times.quantile_ms(0.99):.1f} ms, {cores:.2f} core"
            )
        return found


def steady(seen: Visibility) -> Visibility:
    """Return the transactions after the first second."""
    return seen.between(float(seen.sent_ms[0]) + 1_000, time.time() * 1_000)


def has_started(run: RelayRun) -> bool:
    """Tell whether the relay serves its partitions."""
    return any(notice.event == "started" for _, notice in run.notices)
