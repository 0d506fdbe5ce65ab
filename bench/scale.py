"""``checkback bench scale``: two executors of one core against one, on a standalone cluster.

Each executor is bound to a core, with its Python workers and its sink process; broker and driver
run where there is room. With one executor that is the other core, with two there is none left:
held to a quarter of one each, they leave the rest to broker and driver.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from checkback.bench.batches import steady_part
from checkback.bench.cluster import standalone_cluster
from checkback.bench.measures import Measure
from checkback.bench.query import Query
from checkback.bench.runs import Findings, Run, run_of
from checkback.bench.speed import work_of_two
from checkback.bench.stage import QUICK_START, Stage
from checkback.deploy.ports import LOOPBACK

EXECUTORS: Final = (1, 2)
EXECUTOR_MEMORY: Final = "1g"
WORKER_MEMORY: Final = "2g"


@dataclass(slots=True)
class ScaleBench:
    """The runs of one call; both kinds have as many state partitions.

    Args:
        stage: what they stand on.
        transactions: in each run.
        repetitions: of each run.
        warm_up: share of the records that is read before it is measured.
        cores_each: hold each executor to so much processor time instead of to a core.
        say: tells a person how far it is.
    """

    stage: Stage
    transactions: int
    repetitions: int
    warm_up: float
    cores_each: float | None
    say: Callable[[str], None]
    runs: list[Run] = field(default_factory=list)

    def run(self) -> Findings:
        """Do all runs.

        Raises:
            OperationalError: a run failed.
        """
        of_two = []
        for number in range(self.repetitions):
            of_two.append(work_of_two())
            self.say(f"two processes that share nothing do {of_two[-1]} times the work of one")
            for executors in EXECUTORS:
                self._run(executors, number)
        rates: dict[str, list[float]] = {}
        for run in self.runs:
            rates.setdefault(run.kind, []).append(run.transactions_per_s)
        ratios = [two / one for one, two in zip(rates[_kind(1)], rates[_kind(2)], strict=True)]
        measure = Measure("throughput_of_two_executors", ratios, self.transactions)
        return Findings([measure], self.runs, {"work_of_two_processes": of_two})

    def _run(self, executors: int, number: int) -> None:
        trial = self.stage.trial(f"scale-{executors}-{number}").create()
        written = trial.load(self.transactions)
        cluster = standalone_cluster(
            trial.folder / "cluster",
            executors,
            WORKER_MEMORY,
            bind_to_cores=self.cores_each is None,
            cores_each=self.cores_each,
        )
        with cluster as running:
            spark = {
                **trial.settings.spark,
                "spark.driver.host": LOOPBACK,
                "spark.driver.bindAddress": LOOPBACK,
                "spark.executor.cores": "1",
                "spark.executor.memory": EXECUTOR_MEMORY,
            }
            if self.stage.small:
                options = QUICK_START["spark.driver.extraJavaOptions"]
                spark["spark.executor.extraJavaOptions"] = options
            settings = replace(
                trial.settings, master=running.master, state_partitions=len(EXECUTORS), spark=spark
            )
            environment = {"PYSPARK_PYTHON": sys.executable}
            query = Query(
                trial, "job", settings=settings, environment=environment, others=running.pids
            )
            with query:
                query.wait_for_rows(2 * written)
                query.stop()
        steady = steady_part(query.batches(), self.warm_up)
        kind = _kind(executors)
        run = run_of(query, kind, number, steady, steady.rows // 2, query.batches())
        self.runs.append(run)
        self.say(f"{kind} {number}: {run.transactions_per_s:,.0f} transactions/s")
        trial.delete()


def _kind(executors: int) -> str:
    return f"executors-{executors}"
