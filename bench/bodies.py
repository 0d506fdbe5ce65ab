"""``checkback bench bodies``: what large messages cost in memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from checkback.bench.batches import Steady
from checkback.bench.measures import Measure
from checkback.bench.query import Query
from checkback.bench.runs import Findings, run_of
from checkback.bench.stage import Stage


@dataclass(slots=True)
class BodiesBench:
    """One run: halves of which half are committed later, all at once.

    Args:
        stage: what it stands on; its body_bytes are the messages' size.
        transactions: how many halves.
        wait_s: from the last half to the first op.
        say: tells a person how far it is.
    """

    stage: Stage
    transactions: int
    wait_s: float
    say: Callable[[str], None]

    def run(self) -> Findings:
        """Do the run.

        Raises:
            OperationalError: it failed.
        """
        trial = self.stage.trial("bodies").create()
        workload = replace(trial.workload, has_rollbacks=False)
        with Query(trial, "job") as query:
            query.wait_for_batch()
            self.say(f"loads {self.transactions:,} halves of {self.stage.body_bytes:,} bytes")
            written = trial.load(self.transactions, ops=False, workload=workload)
            query.wait_for_rows(written)
            query.run_for(self.wait_s)
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
        measure = Measure("worker_rss_with_large_bodies", [query.watch.python_mib_max()], written)
        return Findings([measure], [run])
