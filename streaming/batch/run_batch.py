"""Runs one batch in the driver: the tasks write it and report what they did.

docs/guarantees.md numbers the steps of a batch. The comments "Step N" here have the same numbers.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Event, current_thread
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from checkback.checkpoints.spark_files.logs import Offsets
from checkback.protocol.errors import FencedError
from checkback.sinks.kafka.read.list_offsets import by_place
from checkback.sinks.kafka.transaction.marker import markers_of
from checkback.sinks.ledger.rows import LedgerBatch
from checkback.sinks.report import BatchReport, summed
from checkback.sinks.settings import SinkSettings
from checkback.streaming.batch.idle_wait import Idling
from checkback.streaming.batch.partition_growth import PartitionGrowth
from checkback.streaming.batch.sink_task import REPORT_TYPE, sink_function
from checkback.streaming.batch.stop import StoppedBetweenBatchesError
from checkback.streaming.batch.terms import BatchPlans, TermsOfRun
from checkback.streaming.relay.terms import RelayTermsOfRun
from checkback.streaming.reports.observation import Observation
from checkback.streaming.reports.progress import Progress
from checkback.streaming.start.clock_check import AheadWatch

if TYPE_CHECKING:
    from checkback.sinks.ledger.table import DeltaLedger


def write_outcomes(
    outcomes: DataFrame, batch_id: int, settings: SinkSettings, ledger: DeltaLedger | None
) -> BatchReport:
    """Write one batch: one job over the outcomes, which are used once.

    A second action would run the stateful operator again (SPARK-47329).

    Args:
        ledger: takes the ledger rows, once Kafka has the batch; None where there is none.

    Returns:
        What all tasks report.
    """
    # Steps 4 to 9: in the tasks, and in the sink's processes.
    rows = outcomes.mapInArrow(sink_function(settings, batch_id), REPORT_TYPE).collect()
    if ledger is not None:
        # Step 10: all state partitions are through.
        blobs = [row.ledger for row in rows if row.ledger is not None]
        ledger.append(LedgerBatch(settings.query_id, batch_id), blobs)
    # Spark authenticates its workers.
    return summed(pickle.loads(row.report) for row in rows if row.report is not None)  # noqa: S301


def is_begun(sink: SinkSettings, partitions: int, ledger: DeltaLedger | None, batch: int) -> bool:
    """Return whether Kafka or the ledger has anything of a batch."""
    # A batch with nothing but halves sets no marker.
    last = None if ledger is None else ledger.last_batch(sink.query_id)
    if last is not None and last >= batch:
        return True
    return any(marker.has_any_of(batch) for marker in markers_of(sink, partitions).values())


@dataclass(frozen=True, slots=True)
class RunBatch:
    """Runs one batch of a job; Spark calls it once for each.

    Args:
        stopping: set when no further batch may be begun.
        require_own_epoch: raises FencedError if a younger job runs.
        observed: takes the report, and has the log level.
        clock: refuses a batch with a time that the brokers contradict.
        relay: makes the relay terms of the batch; None where no relay ever took an op.
        only_batch: the one batch that this run may carry out; None for any.
    """

    settings: SinkSettings
    progress: Progress
    stopping: Event
    ledger: DeltaLedger | None
    terms: TermsOfRun
    require_own_epoch: Callable[[], None]
    idling: Idling
    observed: Observation
    clock: AheadWatch
    growth: PartitionGrowth
    relay: RelayTermsOfRun | None = None
    only_batch: int | None = None

    def __call__(self, outcomes: DataFrame, batch_id: int) -> None:
        """Write the batch and hold its end until there is something to do.

        Raises:
            StoppedBetweenBatchesError: no further batch may be begun.
            FencedError: a younger job runs.
        """
        self.observed.health.batch_begun(current_thread())
        try:
            self._run(outcomes, batch_id)
        except Exception:
            self.observed.health.batch_over()
            raise
        # After anything else the thread may be gone: then /healthz says so.
        self.observed.health.batch_over()

    def _run(self, outcomes: DataFrame, batch_id: int) -> None:
        if self.stopping.is_set():
            raise StoppedBetweenBatchesError
        if self.only_batch not in (None, batch_id):
            raise FencedError(f"Another job has finished batch {self.only_batch}.")
        # Step 3: Spark has planned the batch; its terms follow from the plan.
        self.progress.begin(time.monotonic())
        plans = self._planned(outcomes, batch_id)
        began_s = time.monotonic()
        pipeline = replace(self.settings.pipeline, log_level=self.observed.log_level)
        settings = replace(self.settings, pipeline=pipeline)
        report = write_outcomes(outcomes, batch_id, settings, self.ledger)
        self.progress.add(batch_id, report, by_place(plans.batch.ends))
        self.observed.batch_written(batch_id, report, time.monotonic() - began_s)
        # Step 11: Spark writes `commits/N` when this returns.
        ends, did_nothing = self._end_and_idleness(plans, report)
        self.idling.hold(batch_id, ends, did_nothing=did_nothing)
        # Spark plans the next batch now, and on some object stores over another job's plan.
        self.require_own_epoch()

    def _planned(self, outcomes: DataFrame, batch_id: int) -> BatchPlans:
        """Set the terms for the tasks, and look whether the batch can be carried out."""
        plans = self.terms.plans_of(batch_id)
        self.clock.require_credible(plans.batch.timestamp_ms)
        self.terms.set_for_tasks(outcomes.sparkSession.sparkContext, batch_id, plans)
        self.growth.follow(plans.batch.ends)
        return plans

    def _end_and_idleness(self, plans: BatchPlans, report: BatchReport) -> tuple[Offsets, bool]:
        """Return where a batch ends, and whether it did nothing.

        A batch that read only marks, or ops that relays take, did nothing.
        """
        ends, before = plans.batch.ends, plans.before
        if self.relay is None:
            return ends, plans.reads_nothing and not report.pages
        relayed = self.terms.relayed
        judged = self.relay.ends_of_job(ends, relayed)
        is_same = before is not None and judged == self.relay.ends_of_job(before.ends, relayed)
        decided = {self.relay.topics.decided: ends.get(self.relay.topics.decided, {})}
        return {**judged, **decided}, is_same and not report.pages
