"""The job: starts the query, watches it, stops it between two batches."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final, cast

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from checkback.checkpoints.folder import CheckpointFolder
from checkback.checkpoints.rules import record_rules
from checkback.checkpoints.status import read_page_statuses
from checkback.protocol import records
from checkback.protocol.configuration import Settings
from checkback.protocol.connection import confluent_settings, spark_settings
from checkback.protocol.errors import BrokerError
from checkback.protocol.topics import HEADER_ROOM_BYTES
from checkback.sinks.ledger_rows import Batch
from checkback.sinks.report import BatchReport, PageStatus
from checkback.sinks.session import SessionWatch
from checkback.sinks.settings import SinkSettings
from checkback.sinks.task import REPORT_TYPE, sink_function
from checkback.sinks.transaction import SentHeaders
from checkback.state import Rules
from checkback.streaming import preflight
from checkback.streaming.claim import claim_topics
from checkback.streaming.clock_watch import ClockWatch
from checkback.streaming.failure import explain, jvm_watched
from checkback.streaming.lag import OffsetPublisher
from checkback.streaming.members import groups_without_members
from checkback.streaming.page_keys import PageKeys
from checkback.streaming.pages import PageSettings
from checkback.streaming.progress import Progress
from checkback.streaming.query import outcomes_of, read_tasks, read_topics, start_query
from checkback.streaming.session import spare_processes, start_session, state_partitions
from checkback.streaming.state_size import fit_to_checkpoint
from checkback.streaming.takeover import take_over
from checkback.streaming.transaction_timeout import LEAST_MS

if TYPE_CHECKING:
    from checkback.sinks.ledger import DeltaLedger

WATCH_S: Final = 0.2
STOP_WAIT_S: Final = 120.0

Emit = Callable[[str, dict[str, Any]], None]
"""Takes an event's name and its fields: started, progress, stopped."""


class StoppedBetweenBatchesError(Exception):
    """Raised inside Spark to end the query before it touches the next batch; no failure."""


@dataclass(slots=True)
class BatchSink:
    """What Spark calls once per batch.

    Args:
        settings: the sink's.
        progress: takes the reports.
        stopping: set when no further batch may be begun.
        ledger: takes the ledger rows, once Kafka has the batch.
    """

    settings: SinkSettings
    progress: Progress
    stopping: Event
    ledger: DeltaLedger | None = None

    def __call__(self, outcomes: DataFrame, batch_id: int) -> None:
        """Write one batch: one job over the outcomes, which are used once.

        A second action would run the stateful operator again (SPARK-47329).
        """
        if self.stopping.is_set():
            raise StoppedBetweenBatchesError
        function = sink_function(self.settings, batch_id, 0)
        rows = outcomes.mapInArrow(function, REPORT_TYPE).collect()
        if self.ledger is not None:
            blobs = [row.ledger for row in rows if row.ledger is not None]
            self.ledger.append(Batch(self.settings.query_id, batch_id), blobs)
        self.progress.add(
            batch_id, [BatchReport.from_json(row.report) for row in rows if row.report is not None]
        )


@dataclass(slots=True)
class Job:
    """One run of the pipeline over a checkpoint.

    Args:
        settings: everything.
        jars: Kafka source and Delta.
        emit: takes what is to be told.
        now_ms: the wall clock, for progress and for the time from which rules hold.
    """

    settings: Settings
    jars: list[Path]
    emit: Emit
    now_ms: Callable[[], int] = lambda: int(time.time() * 1_000)
    progress: Progress = field(default_factory=Progress)
    _stopping: Event = field(default_factory=Event)
    _admin: AdminClient | None = None
    _session: SessionWatch | None = None
    _ledger: DeltaLedger | None = None
    _held: Future[list[PageStatus]] | None = None

    def stop(self) -> None:
        """Ask for an end after the batch that is being written; returns at once."""
        self._stopping.set()

    @jvm_watched()
    def run(self) -> None:
        """Run until stopped.

        Raises:
            ConfigurationError, BrokerError, CheckpointError, FencedError: what stands in the way.
            OperationalError: the query ended by itself; the message holds the cause.
        """
        settings = self.settings
        preflight.require_settings(settings)
        # What matters is raised; brokers that are down would be told of 60 times a second.
        known = confluent_settings(settings.bootstrap_servers, settings.kafka)
        connection: dict[str, Any] = {"log_level": 0, **known}
        facts = preflight.look_at_cluster(settings, connection)
        self._ledger = open_ledger(settings, facts)
        spark = start_session(settings, self.jars)
        try:
            folder = CheckpointFolder(spark, settings.checkpoint)
            spare_processes(spark, folder)
            self.settings = settings = fit_to_checkpoint(settings, folder)
            bound = preflight.bind_checkpoint(settings, facts, folder)
            sink = self._take_over(facts, folder, connection)
            with stop_signals(self.stop):
                query = self._start(spark, folder, sink, bound.page_keys)
                self.emit("started", self._started_facts(query))
                write_tick(settings, connection)
                self._watch(spark, query)
        finally:
            spark.stop()
            if self._session is not None:
                self._session.close()
        self.emit("stopped", {"batch_id": self.progress.last_batch, **self.progress.totals})

    def _take_over(
        self, facts: preflight.ClusterFacts, folder: CheckpointFolder, connection: dict[str, Any]
    ) -> SinkSettings:
        claim_topics(self.settings, connection, folder)
        found = sink_settings(self.settings, connection, folder.make_query_id())
        sink = take_over(found, self.settings, facts, folder)
        self._held = held_pages(folder)
        return sink

    def _start(
        self, spark: SparkSession, folder: CheckpointFolder, sink: SinkSettings, keys: PageKeys
    ) -> StreamingQuery:
        settings = self.settings
        history = record_rules(folder, self.now_ms(), Rules.from_settings(settings))
        size = settings.offsets_per_page
        pages = PageSettings(size, history, keys, tell_prepared=sink.keeps_ledger)
        source = spark_settings(settings.bootstrap_servers, settings.kafka)
        rows = read_topics(spark, settings, source)
        outcomes = outcomes_of(rows, settings.topics, pages, read_tasks(settings))
        self._session = SessionWatch(sink)
        write_batch = BatchSink(sink, self.progress, self._stopping, self._ledger)
        return start_query(outcomes, settings, write_batch)

    def _started_facts(self, query: StreamingQuery) -> dict[str, Any]:
        return {
            "application_id": self.settings.application_id,
            "query_id": query.id,
            "checkpoint": self.settings.checkpoint,
            "state_partitions": state_partitions(self.settings),
        }

    def _watch(self, spark: SparkSession, query: StreamingQuery) -> None:
        # Not the wall clock: set back by an hour it would silence the job for an hour.
        interval_s = self.settings.progress_interval_ms / 1_000
        next_line_s = time.monotonic() + interval_s
        clock = ClockWatch(self.settings.trigger_interval_ms, self.now_ms)
        read = OffsetPublisher(self.settings.application_id, self._connection())
        while not self._stopping.is_set() and not wait_for_end(query, WATCH_S):
            if read.is_due():
                read.publish(query.lastProgress)
            if time.monotonic() >= next_line_s:
                self._require_own_session()
                clock.require_no_step_back()
                if self._held is None or self._held.done():
                    self._emit_line(query)
                next_line_s += interval_s
        if self._stopping.is_set():
            end_between_batches(spark, query)
        read.publish_last(query.lastProgress)
        failure = query.exception()
        if not is_own_stop(failure) and (failure is not None or not self._stopping.is_set()):
            raise explain(failure)
        self._emit_line(query)

    def _require_own_session(self) -> None:
        if self._session is not None:
            self._session.require_own()

    def _emit_line(self, query: StreamingQuery) -> None:
        if self._held is not None:
            self.progress.complete(self._held.result())
            self._held = None
        last = query.lastProgress
        batch_ms = None if last is None else last.durationMs.get("triggerExecution")
        asked = self.progress.take_asked_groups()
        silent = groups_without_members(self._group_admin(), asked) if asked else []
        self.emit("progress", asdict(self.progress.line(self.now_ms(), batch_ms, silent)))

    def _group_admin(self) -> AdminClient:
        # Made when it is first needed, then kept: each one is threads and connections of its own.
        if self._admin is None:
            self._admin = AdminClient({"log_level": 0, **self._connection()})
        return self._admin

    def _connection(self) -> dict[str, Any]:
        return confluent_settings(self.settings.bootstrap_servers, self.settings.kafka)


def sink_settings(settings: Settings, connection: dict[str, Any], query_id: str) -> SinkSettings:
    """Return what the sink has to know of the settings."""
    return SinkSettings(
        settings.application_id,
        query_id,
        settings.topic_prefix,
        connection,
        settings.sink_transaction_timeout_ms or LEAST_MS,
        settings.max_message_bytes + 3 * HEADER_ROOM_BYTES,
        keeps_ledger=bool(settings.ledger),
        native_sink=settings.native_sink,
    )


def open_ledger(settings: Settings, facts: preflight.ClusterFacts) -> DeltaLedger | None:
    """Return the ledger in the settings, made if it is new; None where none is set.

    Raises:
        ConfigurationError: the table there is another's.
        PrerequisiteError: it can't be written.
    """
    if not settings.ledger:
        return None
    from checkback.sinks.ledger import DeltaLedger, LedgerOwner  # delta-rs is for those with one

    topic_id = facts.topics[settings.topics.half].topic_id
    owner = LedgerOwner(settings.application_id, topic_id)
    return DeltaLedger.open_or_create(settings.ledger, owner)


def held_pages(folder: CheckpointFolder) -> Future[list[PageStatus]]:
    """Begin to read what is pending in the checkpoint; nothing but progress lines waits for it.

    It took a quarter of a start, most of it for code that the JVM had not met yet.
    """
    held: Future[list[PageStatus]] = Future()

    def read() -> None:
        try:
            held.set_result(read_page_statuses(folder))
        except BaseException as error:
            held.set_exception(error)

    # A daemon: a job that ends meanwhile waits for no reader.
    Thread(target=read, name="held-pages", daemon=True).start()
    return held


def write_tick(settings: Settings, connection: dict[str, Any]) -> None:
    """Write a record that means nothing: without new data Spark fires no timeout after a restart.

    Raises:
        BrokerError: it could not be written.
    """
    failures: list[str] = []
    producer = Producer({**connection, "acks": "all"})
    producer.produce(
        settings.topics.op,
        value=b"",
        partition=0,
        headers=cast("SentHeaders", records.tick_headers()),
        on_delivery=lambda error, _: failures.append(error.str()) if error else None,
    )
    if producer.flush(30.0) or failures:
        raise BrokerError(
            f"The start record could not be written to {settings.topics.op}: "
            f"{failures or 'no answer in 30 s'}.",
            remedy="Check that the pipeline may write to the topic.",
        )


def wait_for_end(query: StreamingQuery, timeout_s: float) -> bool:
    """Wait so long for the query to end by itself; tell whether it did."""
    try:
        # Its annotation says whole seconds; it takes and documents fractions.
        return bool(query.awaitTermination(timeout_s))  # type: ignore[arg-type]
    except StreamingQueryException:
        return True


def is_own_stop(failure: StreamingQueryException | None) -> bool:
    """Tell whether the query ended because the sink refused a batch on request.

    The request may come while somebody waits for the query's end, and the end right after it.
    """
    return failure is not None and StoppedBetweenBatchesError.__name__ in str(failure)


def end_between_batches(spark: SparkSession, query: StreamingQuery) -> None:
    """Let the batch at work be finished, then end the query.

    StreamingQuery.stop() would interrupt it. The sink refuses the batch after it before touching
    anything; Spark has planned that batch then, and the next start runs it as planned.
    """
    quiet = spark.sparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]  # noqa: SLF001
    quiet.core.config.Configurator.setLevel(
        "org.apache.spark.sql.execution.streaming", quiet.Level.OFF
    )
    deadline = time.monotonic() + STOP_WAIT_S
    while time.monotonic() < deadline and not wait_for_end(query, WATCH_S):
        if query.status["message"] == "Waiting for next trigger":
            break
    query.stop()


@contextmanager
def stop_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Take SIGTERM and SIGINT as the wish to stop, as long as the context lasts."""
    previous = {
        number: signal.signal(number, lambda *_: stop())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
