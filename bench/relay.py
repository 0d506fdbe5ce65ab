"""``python -m bench relay``: from commit to visible message with a relay and with the job alone.

In four parts: the relay without a job at steady rates, so that the figures are its own (the run
writes what the job's start would write, and keeps no order of keys); the job alone at the same
rates; job and relay together, idle, at a relay's start and at a low rate; a backlog without and
with a relay.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Final

import numpy as np
from confluent_kafka import Producer

from bench.latency import SETTLE_S, cores_while
from bench.result import BOUNDS, Measure
from bench.runs.probe import Visibility, visibility
from bench.runs.query import ROWS_TIMEOUT_S, MonitoredProcess, Query
from bench.runs.workload import commits_among
from bench.setting import Bench, Option, say
from checkback.client.kafka.connections import OP_LINGER_MS
from checkback.deploy.settings import write_settings
from checkback.protocol.decided import Taken, note_headers, note_value
from checkback.protocol.errors import OperationalError
from checkback.sinks.records.sink_record import sent_headers

RATES: Final = {100.0: 0, 1_000.0: 0, 2_000.0: OP_LINGER_MS}
"""Transactions a second, and how long the probe lingers: at the highest as Checkback's own client
does with its ops. Without, 4,000 requests a second take one of two cores for the brokers alone, and
the median is 105 to 201 ms in place of 27."""
MIXED_RATE: Final = 150.0
FIRST_FINAL_RATE: Final = 100.0
WARM_UP_RATE: Final = 1_000.0
PROBING_S: Final = 10.0
AT_ONCE_MS: Final = 200.0
"""The relay made visible what is so soon after its op: a batch of the job takes longer."""
OPTIONS: Final = (
    Option("body_bytes", 1_024, None, "Message size."),
    Option("seconds", 30.0, 3.0, "Duration of a repetition at one rate."),
    Option("warm_up_seconds", 60.0, 3.0, "Warm-up of a relay or a job before it is measured."),
    Option("low_rate_warm_up_seconds", 600.0, 3.0, "Warm-up of both at the low rate."),
    Option("transactions", 300_000, 2_000, "Transactions of the backlog."),
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


class RelayBench(Bench):
    """The repetitions of one call."""

    __slots__ = ("_values",)

    def measure(self) -> list[Measure]:
        """Do all runs; return the measures."""
        self._values: dict[str, list[float]] = {}
        self._relay_alone()
        self._job_alone()
        self._together()
        for number in range(self.options.runs):
            without, with_relay = (self._backlog(number, relay=on) for on in (False, True))
            self._note("relay_backlog_to_job", with_relay / without)
        pairs = zip(self._values["job_p50_at_1000"], self._values["relay_p50_at_1000"], strict=True)
        self._values["job_to_relay_p50"] = [job / relay for job, relay in pairs]
        size = int(sum(RATES) * self.options.seconds * self.options.runs)
        return [
            Measure(name, found, size) for name, found in self._values.items() if name in BOUNDS
        ]

    def _note(self, name: str, value: float) -> None:
        self._values.setdefault(name, []).append(value)
        say(f"{name}: {value:,.3f}")

    def _relay_alone(self) -> None:
        trial = self.stage.trial("relay", relay=True, order="none").create()
        producer = Producer({**trial.stage.connection})
        for partition in range(trial.settings.half_partitions):
            note = Taken(0, 0)
            producer.produce(
                trial.settings.topics.decided, note_value(note), None, partition,
                headers=sent_headers(note_headers(note)),
            )  # fmt: skip
        producer.flush(30)
        with RelayRun(trial, "relay") as run:
            run.wait_for_start()
            # A fresh broker compiles for a minute: until then it takes 1.4 cores in place of 0.6.
            # Requests of many records leave what serves single ones half compiled: then half of
            # 1,000 transactions a second took 57 ms in place of 20 to 26.
            visibility(
                run, max(RATES), self.options.warm_up_seconds, has_rollbacks=False, linger_ms=0
            )
            for _ in range(self.options.runs):
                idle = cores_while(run, partial(run.run_for, self.options.seconds / 2))
                self._note("relay_idle_cores", idle)
                for rate in RATES:
                    self._at_rate(run, "relay", rate)
            run.stop()
        trial.delete()

    def _at_rate(self, run: MonitoredProcess, kind: str, rate: float) -> None:
        """Note times and cores at a rate; the first second does not count."""
        seen: list[Visibility] = []

        def probe() -> None:
            found = visibility(
                run, rate, self.options.seconds, has_rollbacks=False, linger_ms=RATES[rate]
            )
            seen.append(found.between(float(found.sent_ms[0]) + 1_000, time.time() * 1_000))

        cores = cores_while(run, probe)
        self._note(f"{kind}_p50_at_{rate:.0f}", seen[0].quantile_ms(0.5))
        self._note(f"{kind}_p99_at_{rate:.0f}", seen[0].quantile_ms(0.99))
        self._note(f"{kind}_cores_at_{rate:.0f}", cores)

    def _job_alone(self) -> None:
        trial = self.stage.trial("alone").create()
        with Query(trial, "job") as job:
            job.wait_for_batch()
            visibility(job, WARM_UP_RATE, self.options.warm_up_seconds)
            for _ in range(self.options.runs):
                for rate in RATES:
                    self._at_rate(job, "job", rate)
            job.stop()
        trial.delete()

    def _together(self) -> None:
        """Start relays beside a job; measure both idle, and at a low rate with rollbacks."""
        trial = self.stage.trial("both", relay=True).create()
        seconds = self.options.seconds
        with Query(trial, "job") as job:
            job.wait_for_batch()
            for number in range(self.options.runs):
                # Messages with keys wait for the job, which keeps their order (rule 10).
                keyed, relay = (RelayRun(trial, f"{name}-{number}") for name in ("keyed", "relay"))
                keyed_s = self._first_final_s(job, keyed, has_keys=True)
                keyed.stop()
                keyed.__exit__()
                self._note("relay_first_keyed_final", keyed_s)
                first_s = self._first_final_s(job, relay, has_keys=False)
                self._note("relay_first_final", first_s)
                try:
                    if number == 0:
                        # A batch a second: until the JVM's compiler has done with what they take,
                        # it needs as much processor time as they do.
                        visibility(job, MIXED_RATE, self.options.low_rate_warm_up_seconds)
                    relay.run_for(SETTLE_S)
                    idle = cores_while(job, lambda: job.run_for(seconds), relay)
                    mixed = cores_while(job, lambda: visibility(job, MIXED_RATE, seconds), relay)
                    self._note("job_and_relay_idle_cores", idle)
                    self._note("job_and_relay_cores_at_150", mixed)
                    relay.stop()
                finally:
                    relay.__exit__()
            job.stop()
        trial.delete()

    def _first_final_s(self, job: Query, relay: RelayRun, *, has_keys: bool) -> float:
        """Start a relay amid transactions; return when it made the first of them visible."""
        with ThreadPoolExecutor(1) as pool:
            probing = pool.submit(
                visibility,
                job,
                FIRST_FINAL_RATE,
                PROBING_S + SETTLE_S,
                has_rollbacks=False,
                has_keys=has_keys,
                linger_ms=0,
            )
            time.sleep(SETTLE_S)
            relay.__enter__()
            relay.wait_for_start()
            seen = probing.result()
        took_ms = seen.seen_ms - seen.sent_ms
        at_once = (took_ms < AT_ONCE_MS) & (seen.sent_ms > relay.launched_ms)
        if not at_once.any():
            raise OperationalError(
                "The relay delivered nothing.", remedy=f"Its log: {relay.folder}."
            )
        return float(np.min(seen.seen_ms[at_once]) - relay.launched_ms) / 1_000

    def _backlog(self, number: int, *, relay: bool) -> float:
        """Return the transactions per second of a job, or of job and relay, over a backlog."""
        name = f"backlog-{'relay' if relay else 'job'}-{number}"
        trial = self.stage.trial(name, relay=relay).create()
        with Query(trial, "before") as job:
            job.wait_for_batch()
            job.stop()
        trial.load(self.options.transactions)
        finals = sum(commits_among(self.stage.seed, n) for n in trial.next_offset.values())
        with ExitStack() as stack:
            job = stack.enter_context(Query(trial, "job"))
            job.wait_for_start()
            if relay:
                stack.enter_context(RelayRun(trial, "relay"))
            job.wait_until(lambda: job.counts()["finals"] >= finals, ROWS_TIMEOUT_S)
            job.stop()
        batches = [one for one in job.batches() if one.rows]
        transactions = sum(trial.next_offset.values())
        # A half and an op, and with a relay the op again. Batches that follow have marks only.
        wanted, rows = (3 if relay else 2) * transactions, accumulate(one.rows for one in batches)
        ended_ms = [one.ended_ms for one, read in zip(batches, rows, strict=True) if read >= wanted]
        rate = transactions / ((ended_ms[0] - batches[0].started_ms) / 1_000)
        say(f"{name}: {rate:,.0f} transactions/s")
        trial.delete()
        return rate
