"""``checkback bench latency``: how long after its commit a message is visible, at a steady rate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from checkback.bench.batches import Steady, median_ms, touching
from checkback.bench.idle import empty_ms, ticked_ms, ticking
from checkback.bench.measures import Measure
from checkback.bench.pipeline import BASELINE_TOPIC
from checkback.bench.probe import RunningProbe, Visibility
from checkback.bench.query import BASELINE, Query
from checkback.bench.runs import Findings, Run, run_of
from checkback.bench.stage import Stage, Trial


@dataclass(frozen=True, slots=True)
class Window:
    """One repetition.

    Args:
        visibility: of the transactions of the span.
        batch_ms: median batch at the rate.
        empty_ms: median batch without a record.
        ticked_ms: median batch with records that mean nothing, as the stateless query has.
    """

    visibility: Visibility
    batch_ms: float
    empty_ms: float
    ticked_ms: float


@dataclass(slots=True)
class LatencyBench:
    """The runs of one call: the job and the stateless query, each warm before it is measured.

    Args:
        stage: what they stand on.
        transactions_per_s: the rate.
        seconds: of a repetition at the rate.
        idle_s: of a repetition without transactions.
        warm_up_s: before the first repetition.
        repetitions: how many.
        say: tells a person how far it is.
    """

    stage: Stage
    transactions_per_s: float
    seconds: float
    idle_s: float
    warm_up_s: float
    repetitions: int
    say: Callable[[str], None]
    runs: list[Run] = field(default_factory=list)

    def run(self) -> Findings:
        """Do all runs.

        Raises:
            OperationalError: a run failed, or a committed message did not become visible.
        """
        trial = self.stage.trial("latency").create()
        windows = self._job(trial)
        stateless_ms = self._stateless(trial)
        trial.delete()
        facts = {
            "commit_to_visible_p50_ms": [one.visibility.quantile_ms(0.5) for one in windows],
            "commit_to_visible_p99_ms": [one.visibility.quantile_ms(0.99) for one in windows],
            "batch_ms": [one.batch_ms for one in windows],
            "empty_batch_ms": [one.empty_ms for one in windows],
            "ticked_batch_ms": [one.ticked_ms for one in windows],
            "stateless_ticked_batch_ms": stateless_ms,
            "ticked_batch_to_stateless": _ratios([one.ticked_ms for one in windows], stateless_ms),
        }
        return Findings(self._measures(windows, stateless_ms), self.runs, facts)

    def _job(self, trial: Trial) -> list[Window]:
        with Query(trial, "job") as query:
            query.wait_for_batch()
            self.say(f"warms up for {self.warm_up_s:.0f} s")
            self._probe(query, self.warm_up_s, "warm-up")
            windows = [self._window(query, number) for number in range(self.repetitions)]
            query.stop()
        return windows

    def _window(self, query: Query, number: int) -> Window:
        visibility, from_ms, to_ms = self._probe(query, self.seconds, f"probe-{number}")
        empty = empty_ms(query, self.idle_s)
        with ticking(query.trial):
            ticked = ticked_ms(query, self.idle_s)
        at_rate = touching(query.batches(), from_ms, to_ms)
        steady = Steady(at_rate)
        transactions = int(self.transactions_per_s * (steady.to_ms - steady.from_ms) / 1_000)
        self.runs.append(run_of(query, "job", number, steady, transactions, at_rate))
        found = Window(
            visibility.between(from_ms, to_ms),
            median_ms(at_rate),
            empty,
            ticked,
        )
        self.say(
            f"job {number}: p50 {found.visibility.quantile_ms(0.5):,.0f} ms, batch"
            f" {found.batch_ms:,.0f} ms, empty {found.empty_ms:,.0f} ms"
        )
        return found

    def _probe(self, query: Query, seconds: float, name: str) -> tuple[Visibility, float, float]:
        """Send at the rate; return what was seen and from when to when was sent."""
        probe = query.trial.probe(self.transactions_per_s, seconds, name)
        with RunningProbe(probe) as running:
            query.wait_until(running.is_over, seconds + 300)
            found = running.result()
        return found, float(found.sent_ms[0]), float(found.sent_ms[-1])

    def _stateless(self, trial: Trial) -> list[float]:
        topic = f"{trial.settings.topic_prefix}{BASELINE_TOPIC}"
        trial.create_real_topics([topic])
        settings = replace(trial.settings, checkpoint=str(trial.folder / "stateless-checkpoint"))
        options = ["--seed", str(self.stage.seed), "--real-topic", topic]
        with Query(trial, "stateless", BASELINE, settings, options) as query, ticking(trial):
            query.wait_for_batch()
            query.run_for(self.warm_up_s)
            found = []
            for number in range(self.repetitions):
                found.append(ticked_ms(query, self.idle_s))
                self.say(f"stateless {number}: empty {found[-1]:,.0f} ms")
            query.stop()
        trial.delete_topics([topic])
        return found

    def _measures(self, windows: list[Window], stateless_ms: list[float]) -> list[Measure]:
        size = int(self.transactions_per_s * self.seconds * self.repetitions)
        values = {
            "visible_p50_to_batch": [w.visibility.quantile_ms(0.5) / w.batch_ms for w in windows],
            "visible_p99_to_batch": [w.visibility.quantile_ms(0.99) / w.batch_ms for w in windows],
            "batch_to_empty_batch": [w.batch_ms / w.empty_ms for w in windows],
            "empty_batch_to_stateless": _ratios([w.empty_ms for w in windows], stateless_ms),
            "checkpoint_bytes_per_transaction": [
                run.checkpoint_bytes_per_transaction for run in self.runs
            ],
        }
        return [Measure(name, runs, size) for name, runs in values.items()]


def _ratios(own_ms: list[float], other_ms: list[float]) -> list[float]:
    return [own / other for own, other in zip(own_ms, other_ms, strict=True)]
