"""Spark calls this once per batch: it lets the tasks write, and takes their reports."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from threading import Event
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from checkback.sinks.batch_report import BatchReport, summed
from checkback.sinks.kafka.epoch import EpochWatch
from checkback.sinks.kafka.settings import SinkSettings
from checkback.sinks.ledger.rows import LedgerBatch
from checkback.streaming.clock_watch import AheadWatch
from checkback.streaming.half_bounds import HalfBounds
from checkback.streaming.idling import FinishedBatch, Idling
from checkback.streaming.observation import Observation
from checkback.streaming.op_page_bound import tell_half_pages
from checkback.streaming.partition_growth import PartitionGrowth
from checkback.streaming.progress import Progress
from checkback.streaming.read_until import BatchPlans, ReadUntil
from checkback.streaming.sink_task import REPORT_TYPE, sink_function
from checkback.streaming.stop import StoppedBetweenBatchesError

if TYPE_CHECKING:
    from checkback.sinks.ledger.table import DeltaLedger


@dataclass(slots=True)
class BatchSink:
    """What Spark calls once per batch.

    Args:
        settings: the sink's.
        progress: takes the reports.
        stopping: set when no further batch may be begun.
        ledger: takes the ledger rows, once Kafka has the batch.
        read_until: tells the tasks what has been read; None where nobody is to be asked.
        epoch: tells whether a younger job runs; None where that does not matter.
        idling: holds the batch's end while there is nothing to do; None: the next comes at once.
        observed: hears of every batch, if somebody is to.
        clock: tells whether a batch's time can be; None where that does not matter.
        growth: follows the half topic's partitions; None where none are added.
        half_bounds: tells which halves an op can name; None: any.
    """

    settings: SinkSettings
    progress: Progress
    stopping: Event
    ledger: DeltaLedger | None = None
    read_until: ReadUntil | None = None
    epoch: EpochWatch | None = None
    idling: Idling | None = None
    observed: Observation | None = None
    clock: AheadWatch | None = None
    growth: PartitionGrowth | None = None
    half_bounds: HalfBounds | None = None

    def __call__(self, outcomes: DataFrame, batch_id: int) -> None:
        """Write one batch: one job over the outcomes, which are used once.

        A second action would run the stateful operator again (SPARK-47329).
        """
        if self.stopping.is_set():
            raise StoppedBetweenBatchesError
        plans = self._planned(outcomes, batch_id)
        began_s, settings = time.monotonic(), self.settings
        self.progress.begin(began_s)
        if self.observed is not None:
            pipeline = replace(settings.pipeline, log_level=self.observed.log_level)
            settings = replace(settings, pipeline=pipeline)
        function = sink_function(settings, batch_id, 0)
        rows = outcomes.mapInArrow(function, REPORT_TYPE).collect()
        if self.ledger is not None:
            blobs = [row.ledger for row in rows if row.ledger is not None]
            self.ledger.append(LedgerBatch(self.settings.query_id, batch_id), blobs)
        report = _report_in(row.report for row in rows if row.report is not None)
        self.progress.add(batch_id, report)
        if self.observed is not None:
            self.observed.batch_written(batch_id, report, time.monotonic() - began_s)
        if self.idling is not None and plans is not None:
            self.idling.hold(finished(batch_id, plans, report))
        # Spark plans the next batch now, and on some object stores over another job's plan.
        if self.epoch is not None:
            self.epoch.require_own()

    def _planned(self, outcomes: DataFrame, batch_id: int) -> BatchPlans | None:
        """Tell the tasks what the plans say, and look whether the batch can be carried out.

        Returns:
            The plans; None where nobody is to be asked.
        """
        if self.read_until is None:
            return None
        context = outcomes.sparkSession.sparkContext
        plans = self.read_until.tell_tasks(context, batch_id)
        if self.clock is not None:
            self.clock.require_credible(plans.batch.timestamp_ms)
        named = {} if self.half_bounds is None else self.half_bounds.of_batch(batch_id, plans)
        tell_half_pages(context, plans, named, self.settings.topics.half)
        if self.growth is not None:
            self.growth.follow(plans.batch.ends)
        return plans


def _report_in(pickled: Iterable[bytes]) -> BatchReport:
    """Return what a batch's tasks report as one; Spark authenticates its workers."""
    return summed(pickle.loads(report) for report in pickled)  # noqa: S301


def finished(batch_id: int, plans: BatchPlans, report: BatchReport) -> FinishedBatch:
    """Return what a batch did, from its plans and the report of its tasks."""
    return FinishedBatch(batch_id, plans.batch.ends, plans.reads_nothing and not report.pages)
