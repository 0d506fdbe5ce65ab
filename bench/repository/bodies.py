"""``checkback bench bodies``: what large messages cost in memory."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from checkback.bench import options
from checkback.bench.batches import Steady
from checkback.bench.measures import Measure
from checkback.bench.options import Say
from checkback.bench.query import Query
from checkback.bench.runs import BenchFindings, run_of
from checkback.bench.stage import BenchSetting


@dataclass(frozen=True)
class BodiesOptions:
    """Measure the memory that large messages take.

    Stores large halves and commits half of them later. The default of --body-bytes is 1 MiB here.
    """

    transactions: int = options.transactions(10_000, smoke=40)
    wait_seconds: float = options.seconds(
        60.0, "Pause from the last half to the first op.", smoke=1, least=0
    )


@dataclass(slots=True)
class BodiesBench:
    """One run: the first 50 % of the halves are committed later, all at once.

    Args:
        stage: the stage of the run; its body_bytes is the messages' size.
        options: the options of the call.
        say: prints progress for a person.
    """

    stage: BenchSetting
    options: BodiesOptions
    say: Say

    def run(self) -> BenchFindings:
        """Do the run.

        Raises:
            OperationalError: the run failed.
        """
        trial = self.stage.trial("bodies").create()
        workload = replace(trial.workload, has_rollbacks=False)
        with Query(trial, "job") as query:
            query.wait_for_batch()
            self.say(
                f"loads {self.options.transactions:,} halves of {self.stage.body_bytes:,} bytes"
            )
            written = trial.load(self.options.transactions, ops=False, workload=workload)
            query.wait_for_rows(written)
            query.run_for(self.options.wait_seconds)
            committed_from_ms = time.time() * 1_000
            commits = trial.load_ops(workload, written // 2)
            query.wait_for_rows(written + commits)
            query.wait_until(lambda: query.counts()["finals"] >= commits, 60)
            query.stop()
        batches = [one for one in query.batches() if one.ended_ms >= committed_from_ms and one.rows]
        facts = {"halves": written, "commits": commits}
        steady = Steady(batches)
        run = run_of(query, "bodies", 0, steady, commits, query.batches(), facts)
        trial.delete()
        measure = Measure("worker_rss_with_large_bodies", [run.python_mib], written)
        return BenchFindings([measure], [run])
