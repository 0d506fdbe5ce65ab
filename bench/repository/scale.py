"""``checkback bench scale``: compares two executors of one core with one, on a standalone cluster.

Each executor is bound to a core, together with its Python workers and its sink process. Broker and
driver run on the other cores. On a machine with two cores two executors leave none for them;
limited to a quarter of a core each, the executors leave the rest to broker and driver.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from checkback.bench import options
from checkback.bench.batches import steady_part
from checkback.bench.measures import Measure
from checkback.bench.options import Say, option
from checkback.bench.query import Query
from checkback.bench.repository.cluster import standalone_cluster
from checkback.bench.runs import BenchFindings, Run, run_of
from checkback.bench.speed import work_of_two
from checkback.bench.stage import BenchSetting
from checkback.deploy.ports import LOOPBACK
from checkback.protocol.configuration import Settings
from checkback.testing.pipeline_process import QUICK_JVM

EXECUTORS: Final = (1, 2)
EXECUTOR_MEMORY: Final = "1g"
WORKER_MEMORY: Final = "2g"


@dataclass(frozen=True)
class ScaleOptions:
    """Measure what a second executor gains.

    Runs on a standalone cluster, with one executor of one core and with two. Broker, driver and
    executors share this machine, so two executors can only be faster if cores are left for them. On
    two cores use --cores-each 0.25.
    """

    transactions: int = options.transactions(300_000, smoke=4_000)
    runs: int = options.runs()
    batch_events: int = options.batch_events(250_000)
    cores_each: float | None = option(
        None,
        "Limit each executor to this much processor time (Linux, root); default: a core.",
        least=0.1,
    )
    warm_up: float = options.warm_up()


@dataclass(slots=True)
class ScaleBench:
    """The runs of one call; both kinds have the same number of state partitions.

    Args:
        stage: the stage of the runs.
        options: the options of the call.
        say: prints progress for a person.
    """

    stage: BenchSetting
    options: ScaleOptions
    say: Say
    runs: list[Run] = field(default_factory=list)

    def run(self) -> BenchFindings:
        """Do all runs.

        Raises:
            OperationalError: a run failed.
        """
        of_two = []
        for number in range(self.options.runs):
            of_two.append(work_of_two())
            self.say(f"two processes that share nothing do {of_two[-1]} times the work of one")
            for executors in EXECUTORS:
                self._run(executors, number)
        ratios = ratios_of(self.runs)
        measure = Measure("throughput_of_two_executors", ratios, self.options.transactions)
        return BenchFindings([measure], self.runs, {"work_of_two_processes": of_two})

    def _run(self, executors: int, number: int) -> None:
        trial = self.stage.trial(f"scale-{executors}-{number}").create()
        written = trial.load(self.options.transactions)
        cluster = standalone_cluster(
            trial.folder / "cluster",
            executors,
            WORKER_MEMORY,
            bind_to_cores=self.options.cores_each is None,
            cores_each=self.options.cores_each,
        )
        with cluster as running:
            settings = settings_on(running.master, trial.settings, small=self.stage.small)
            environment = {"PYSPARK_PYTHON": sys.executable}
            query = Query(
                trial, "job", settings=settings, environment=environment, others=running.pids
            )
            with query:
                query.wait_for_rows(2 * written)
                query.stop()
        steady = steady_part(query.batches(), self.options.warm_up)
        kind = _kind(executors)
        run = run_of(query, kind, number, steady, steady.rows // 2, query.batches())
        self.runs.append(run)
        self.say(f"{kind} {number}: {run.transactions_per_s:,.0f} transactions/s")
        trial.delete()


def settings_on(master: str, settings: Settings, *, small: bool) -> Settings:
    """Return a run's settings: the same number of state partitions for any number of executors.

    Args:
        master: the address of the cluster's master.
        settings: the trial's settings.
        small: whether this is a smoke run.
    """
    spark = {
        **settings.spark,
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.executor.cores": "1",
        "spark.executor.memory": EXECUTOR_MEMORY,
    }
    if small:
        spark["spark.executor.extraJavaOptions"] = QUICK_JVM
    return replace(settings, master=master, state_partitions=len(EXECUTORS), spark=spark)


def ratios_of(runs: Sequence[Run]) -> list[float]:
    """Return how many times as fast two executors were as one, per repetition."""
    rates: dict[str, list[float]] = {}
    for run in runs:
        rates.setdefault(run.kind, []).append(run.transactions_per_s)
    return [two / one for one, two in zip(rates[_kind(1)], rates[_kind(2)], strict=True)]


def _kind(executors: int) -> str:
    return f"executors-{executors}"
