"""``checkback bench latency``: the time from commit to visible message, at a steady rate."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from checkback.bench import options
from checkback.bench.batches import Steady, median_ms, touching
from checkback.bench.idle import empty_ms, ticked_ms, ticking
from checkback.bench.measures import Measure
from checkback.bench.options import Say
from checkback.bench.pipeline import BASELINE_TOPIC
from checkback.bench.probe import RunningProbe, Visibility
from checkback.bench.query import BASELINE, Query
from checkback.bench.quiet import Quiet, measure_quiet, quiet_measures
from checkback.bench.runs import BenchFindings, Run, run_of
from checkback.bench.stage import BenchSetting, Trial


@dataclass(frozen=True)
class LatencyOptions:
    """Measure the time from commit to visible message.

    Sends at a steady rate. The unit is a batch: times differ between machines, but their ratio to
    the batch time hardly does. Then the run sends nothing, and compares empty batches with those of
    a stateless query. At last it is quiet: asleep, at ten transactions per second, and with single
    commits.
    """

    rate: float = options.rate(smoke=50)
    seconds: float = options.seconds(60.0, "Duration of a repetition.", smoke=4)
    idle_seconds: float = options.seconds(15.0, "Duration of one without transactions.", smoke=4)
    # A single commit comes every four seconds.
    quiet_seconds: float = options.seconds(60.0, "Duration of each quiet part.", smoke=5, least=5)
    warm_up_seconds: float = options.seconds(240.0, "Warm-up before the first one.", smoke=3)
    runs: int = options.runs()


@dataclass(frozen=True, slots=True)
class Window:
    """One repetition.

    Args:
        visibility: visibility of the repetition's transactions.
        batch_ms: median batch time at the rate.
        empty_ms: median time of a batch without records.
        ticked_ms: median time of a batch with only ticks, like those of the stateless query.
        quiet: the pipeline with little to do.
    """

    visibility: Visibility
    batch_ms: float
    empty_ms: float
    ticked_ms: float
    quiet: Quiet


@dataclass(slots=True)
class LatencyBench:
    """The runs of one call: the job and the stateless query, each measured after a warm-up.

    Args:
        stage: the stage of the runs.
        options: the options of the call.
        say: prints progress for a person.
    """

    stage: BenchSetting
    options: LatencyOptions
    say: Say
    runs: list[Run] = field(default_factory=list)

    def run(self) -> BenchFindings:
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
            "lone_commit_p50_ms": [one.quiet.lone.quantile_ms(0.5) for one in windows],
            "awake_commit_p50_ms": [one.quiet.awake.quantile_ms(0.5) for one in windows],
            "ticked_batch_to_stateless": _ratios([one.ticked_ms for one in windows], stateless_ms),
        }
        return BenchFindings(self._measures(windows, stateless_ms), self.runs, facts)

    def _job(self, trial: Trial) -> list[Window]:
        with Query(trial, "job") as query:
            query.wait_for_batch()
            self.say(f"warms up for {self.options.warm_up_seconds:.0f} s")
            self._probe(query, self.options.warm_up_seconds, "warm-up")
            windows = [self._window(query, number) for number in range(self.options.runs)]
            query.stop()
        return windows

    def _window(self, query: Query, number: int) -> Window:
        visibility, from_ms, to_ms = self._probe(query, self.options.seconds, f"probe-{number}")
        empty = empty_ms(query, self.options.idle_seconds)
        with ticking(query.trial):
            ticked = ticked_ms(query, self.options.idle_seconds)
        at_rate = touching(query.batches(), from_ms, to_ms)
        steady = Steady(at_rate)
        transactions = int(self.options.rate * (steady.to_ms - steady.from_ms) / 1_000)
        self.runs.append(run_of(query, "job", number, steady, transactions, at_rate))
        found = Window(
            visibility.between(from_ms, to_ms),
            median_ms(at_rate),
            empty,
            ticked,
            measure_quiet(query, self.options.quiet_seconds, number),
        )
        self.say(
            f"job {number}: p50 {found.visibility.quantile_ms(0.5):,.0f} ms, batch"
            f" {found.batch_ms:,.0f} ms, empty {found.empty_ms:,.0f} ms; idle"
            f" {found.quiet.idle_cores:.3f} core, lone commit"
            f" {found.quiet.lone.quantile_ms(0.5):,.0f} ms"
        )
        return found

    def _probe(self, query: Query, seconds: float, name: str) -> tuple[Visibility, float, float]:
        """Send at the rate; return the visibility, and the times of the first and last sending."""
        probe = query.trial.probe(self.options.rate, seconds, name)
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
            query.run_for(self.options.warm_up_seconds)
            found = []
            for number in range(self.options.runs):
                found.append(ticked_ms(query, self.options.idle_seconds))
                self.say(f"stateless {number}: empty {found[-1]:,.0f} ms")
            query.stop()
        trial.delete_topics([topic])
        return found

    def _measures(self, windows: list[Window], stateless_ms: list[float]) -> list[Measure]:
        size = int(self.options.rate * self.options.seconds * self.options.runs)
        values = {
            "visible_p50_to_batch": [w.visibility.quantile_ms(0.5) / w.batch_ms for w in windows],
            "visible_p99_to_batch": [w.visibility.quantile_ms(0.99) / w.batch_ms for w in windows],
            "batch_to_empty_batch": [w.batch_ms / w.empty_ms for w in windows],
            "empty_batch_to_stateless": _ratios([w.empty_ms for w in windows], stateless_ms),
            "checkpoint_bytes_per_transaction": [
                run.checkpoint_bytes_per_transaction for run in self.runs
            ],
        }
        measures = [Measure(name, runs, size) for name, runs in values.items()]
        return measures + quiet_measures([window.quiet for window in windows], size)


def _ratios(own_ms: list[float], other_ms: list[float]) -> list[float]:
    return [own / other for own, other in zip(own_ms, other_ms, strict=True)]
