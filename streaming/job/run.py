"""The job: starts the query, watches it, stops it between two batches."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from checkback.checkpoints.files import ReadableCheckpoint, require_readable
from checkback.checkpoints.local_files import LocalCheckpoint, local_folder
from checkback.checkpoints.own_files.batch_terms import AccessVersion, newest_terms
from checkback.checkpoints.own_files.running import told_as_running
from checkback.checkpoints.pending.status import read_page_statuses
from checkback.checkpoints.spark_internals import set_micro_batches_log
from checkback.checkpoints.store import CheckpointStore
from checkback.protocol.configuration import Settings
from checkback.protocol.connection import spark_settings
from checkback.sinks.kafka.read.list_offsets import ends_without_transactions
from checkback.sinks.kafka.read.rule_source import rule_source
from checkback.sinks.kafka.transaction.epoch import EpochWatch
from checkback.sinks.kafka.transaction.hanging import ShortTopic, short_topics
from checkback.sinks.settings import SinkSettings
from checkback.state import Rules
from checkback.streaming.access.rules_in_force import AccessWatch
from checkback.streaming.batch.idle_wait import Idling, RecordWatch
from checkback.streaming.batch.partition_growth import PartitionGrowth
from checkback.streaming.batch.run_batch import RunBatch, is_begun
from checkback.streaming.batch.stop import (
    WATCH_S,
    end_between_batches,
    is_own_stop,
    stop_signals,
    wait_for_end,
)
from checkback.streaming.batch.terms import TermsOfRun
from checkback.streaming.job.query import outcomes_of, read_tasks, start_query
from checkback.streaming.job.query_failure import explain, jvm_watched
from checkback.streaming.pages.page_function import PageSettings
from checkback.streaming.pages.page_key import PageKeys
from checkback.streaming.relay.decided_topic import DecidedTopic
from checkback.streaming.relay.marks import MarkReader
from checkback.streaming.relay.switch import RelaySwitch
from checkback.streaming.relay.terms import RelayTermsOfRun
from checkback.streaming.reports.group_members import groups_without_members
from checkback.streaming.reports.observation import Observation
from checkback.streaming.reports.offset_publisher import OffsetPublisher
from checkback.streaming.reports.progress import Progress, ProgressLine, awaited
from checkback.streaming.reports.stalls import InputWatch, Stall
from checkback.streaming.source.kafka_source import count_start_over_batch, pem_text, read_topics
from checkback.streaming.source.verification import RecordVerification
from checkback.streaming.spark.cores import state_partitions
from checkback.streaming.spark.driver_jvm import log_path
from checkback.streaming.spark.session import start_session, use_hadoop_file_system
from checkback.streaming.start import preflight
from checkback.streaming.start.announce import publish_status, write_tick
from checkback.streaming.start.checkpoint_layout import filled_from_checkpoint, fit_to_checkpoint
from checkback.streaming.start.clock_check import AheadWatch
from checkback.streaming.start.direct_op_topic import DirectOpTopic
from checkback.streaming.start.kept_records import KeptRecords, log_ends, read_to
from checkback.streaming.start.planned_run import PlannedRun
from checkback.streaming.start.sink_choices import open_ledger, sink_settings
from checkback.streaming.start.takeover import fence_older
from checkback.streaming.start.topic_claim import TopicClaim

if TYPE_CHECKING:
    from checkback.sinks.ledger.table import DeltaLedger

OPEN_TRANSACTION_S: Final = 60.0
"""Brokers end a dead producer's transaction well within this time."""
SLOW_MS: Final = 30_000
"""A batch that takes so long may wait for replicas."""
RELAY_INTERVAL_MS: Final = 1_000
"""The trigger interval where relays take the ops and none is set."""
CLOCK_S: Final = 10.0
"""How long a comparison of the clocks waits for the brokers."""
Emit = Callable[[str, dict[str, Any] | ProgressLine], None]
"""Takes an event's name and its fields: started, progress, stopped."""


@dataclass(slots=True)
class Job:
    """One run of the pipeline over a checkpoint.

    Args:
        jars: of Spark's Kafka source.
        now_ms: the wall clock, for progress and for the time from which rules hold.
    """

    settings: Settings
    jars: list[Path]
    emit: Emit
    now_ms: Callable[[], int] = lambda: int(time.time() * 1_000)
    progress: Progress = field(default_factory=Progress)
    _stopping: Event = field(default_factory=Event)
    _is_over: bool = False
    _admin: AdminClient | None = None
    _epoch: EpochWatch | None = None
    _claim: TopicClaim | None = None
    _ledger: DeltaLedger | None = None
    _stalls: InputWatch | None = None
    _idling: Idling | None = None
    _silent: set[str] = field(default_factory=set)
    _relay: RelaySwitch = field(init=False)
    _observed: Observation = field(init=False)
    _access: AccessWatch = field(init=False)
    _clock: AheadWatch = field(init=False)
    _is_begun: Callable[[int], bool] = field(init=False)
    _polls_small: Callable[[], bool] = field(init=False)
    _access_version: AccessVersion = field(default_factory=AccessVersion)

    def __post_init__(self) -> None:
        self._access = AccessWatch(rule_source(self.settings))
        self._clock = AheadWatch(lambda: write_tick(self.settings, CLOCK_S), lambda: self.now_ms())

    def stop(self) -> None:
        """Ask for an end after the batch that is being written; returns at once."""
        self._is_over = True
        self._stopping.set()

    def run(self) -> None:
        """Run until stopped.

        Raises:
            ConfigurationError, BrokerError, CheckpointError, FencedError: what stands in the way.
            OperationalError: the query ended by itself; the message holds the cause.
        """
        settings = self.settings
        preflight.require_settings(settings)
        with jvm_watched(log_path(settings.log_file)), closing(self._access):
            self._access.read()
            with closing(Observation(settings, self.progress, self.now_ms)) as self._observed:
                self._run(settings)
        self.emit("stopped", {"batch_id": self.progress.last_batch, **self.progress.totals})

    def _run(self, settings: Settings) -> None:
        connection = settings.connection()
        facts = preflight.look_at_cluster(settings, connection)
        # Checked first: with a wrong clock this job must neither fence another one nor record a
        # time.
        self._clock.require_agreement()
        self._ledger = open_ledger(settings, facts)
        spark = start_session(settings, self.jars)
        try:
            use_hadoop_file_system(spark, settings.checkpoint)
            store = CheckpointStore.of(spark, settings.checkpoint)
            require_readable(store)
            self.settings = settings = fit_to_checkpoint(settings, spark, store)
            bound = preflight.bind_checkpoint(settings, facts, store)
            sink = self._take_over_checkpoint(store, facts, connection)
            preflight.require_still_bound(store, bound)
            filled_from_checkpoint(settings, store)  # refuses one whose repartition goes on
            publish_status(settings, connection, self.now_ms())
            folder = local_folder(settings.checkpoint, settings.spark)
            with stop_signals(self.stop), told_as_running(folder, self._observed.url):
                self._run_queries(spark, store, sink, PageKeys.of(bound))
        finally:
            spark.stop()
            self._stopping.set()  # nothing is held any longer
            if self._epoch is not None:
                self._epoch.close()

    def _take_over_checkpoint(
        self, store: CheckpointStore, facts: preflight.ClusterFacts, connection: dict[str, Any]
    ) -> SinkSettings:
        """Check that Kafka and ledger fit the checkpoint, claim the topics, fence older jobs."""
        read = read_to(store)
        noted = newest_terms(store) if read else None
        epochs = {} if noted is None else noted.leader_epochs
        kept = KeptRecords(connection)
        kept.require(read, epochs, log_ends(self._admin_client(), read))
        half_id = facts.topics[self.settings.topics.half].topic_id
        kept_ms = facts.marks_kept_ms
        self._claim = TopicClaim(self.settings, connection, store, half_id, kept_ms, self.now_ms)
        self._claim.claim()
        found = sink_settings(self.settings, connection, store.make_query_id())
        if self._ledger is not None:
            planned = store.last_batch("offsets")
            self._ledger.require_not_ahead(found.query_id, -1 if planned is None else planned)
        sink = fence_older(found, self.settings, facts, store)
        self.progress.begin_with(read_page_statuses(self._plans(store)))
        # A first batch that hangs does not say it.
        self.progress.read = read
        return sink

    def _run_queries(
        self, spark: SparkSession, store: CheckpointStore, sink: SinkSettings, keys: PageKeys
    ) -> None:
        """Run a query until the job is stopped.

        When access rules change, another query goes on where the last one ended.
        """
        settings = self.settings
        size = settings.offsets_per_page
        pages = PageSettings(size, keys, tell_prepared=bool(settings.ledger))
        self._epoch = EpochWatch(sink)
        # A start that is refused before its first query has failed over no batch.
        self._polls_small = cache(partial(count_start_over_batch, store))
        is_first = True
        while True:
            # Each look reads the markers.
            self._is_begun = cache(
                partial(is_begun, sink, state_partitions(settings), self._ledger)
            )
            self._access_version, changed = self._access.for_run(store, self._is_begun)
            if changed is not None:
                self.emit("access_rules", changed)
                self._observed.rules_changed(changed)
            if is_first and not self._settle_who_reads_ops(spark, store, sink, pages):
                return
            query = self._start(spark, store, sink, pages)
            if is_first:
                self._observed.started(spark.sparkContext.setLogLevel)
                self.emit("started", self._started_facts(query))
            write_tick(settings)
            if not self._watch(spark, query):
                return
            is_first = False
            set_micro_batches_log(spark, "ERROR")  # a query that was ended left it off
            self._stopping.clear()
            if self._is_over:
                self._stopping.set()

    def _settle_who_reads_ops(
        self, spark: SparkSession, store: CheckpointStore, sink: SinkSettings, pages: PageSettings
    ) -> bool:
        """Leave the former direct op topic, then hand the ops to relays or take them back.

        Returns:
            Whether the job is to go on.
        """
        topics = self.settings.topics

        def ends(partitions: int) -> dict[int, int]:
            return ends_without_transactions(
                self.settings.connection(), topics.direct_op, partitions, OPEN_TRANSACTION_S
            )

        def run(planned: PlannedRun) -> bool:
            query = self._start(spark, store, sink, pages, planned)
            while not self._stopping.is_set() and not wait_for_end(query, WATCH_S):
                pass
            if self._stopping.is_set():
                end_between_batches(spark, query)
                return False
            failure = query.exception()
            if failure is not None and not is_own_stop(failure):
                raise explain(failure, log_path(self.settings.log_file))
            return failure is None

        decided = partial(DecidedTopic, self.settings, self.settings.connection())
        tick = partial(write_tick, self.settings)
        self._relay = RelaySwitch(self.settings, store, decided, tick, self.now_ms)
        return DirectOpTopic(store, topics, ends, self.now_ms).leave(run) and self._relay.prepare(
            run
        )

    def _start(
        self,
        spark: SparkSession,
        store: CheckpointStore,
        sink: SinkSettings,
        pages: PageSettings,
        planned: PlannedRun | None = None,
    ) -> StreamingQuery:
        """Start the query; given a planned run, one that ends after that batch."""
        settings, access = self.settings, self._access.rules
        source = spark_settings(settings.bootstrap_servers, settings.kafka, pem_text)
        rows = read_topics(
            spark,
            self._relay.topics if planned is None else planned.topics,
            source,
            settings.batch_events_max,
            polls_small=self._polls_small(),
            drops_topic=planned is not None and planned.drops_topic,
        )
        verification = None if access is None else RecordVerification(spark, access)
        outcomes = outcomes_of(rows, settings.topics, pages, read_tasks(settings), verification)
        self._idling, ledger = self._new_idling(is_long=planned is None), self._ledger
        relay = self._relay_terms()
        run_batch = RunBatch(
            sink,
            self.progress,
            self._stopping,
            ledger,
            self._terms(store, pages.page_size, relay),
            self._require_own_epoch,
            self._idling,
            self._observed,
            self._clock,
            PartitionGrowth(sink.connection, sink.topics),
            relay,
            None if planned is None else planned.batch,
        )
        return start_query(outcomes, settings, run_batch, is_long=planned is None)

    def _relay_terms(self) -> RelayTermsOfRun | None:
        spans, names = self._relay.spans, self.settings.topics
        if not spans:
            return None
        reader = MarkReader(self.settings.connection(), names.decided)
        return RelayTermsOfRun(names, spans, reader.newest)

    def _terms(
        self, store: CheckpointStore, page_size: int, relay: RelayTermsOfRun | None
    ) -> TermsOfRun:
        return TermsOfRun(
            store,
            self._plans(store),
            Rules.from_settings(self.settings),
            self._access_version,
            partial(log_ends, self._admin_client()),
            KeptRecords(self.settings.connection()).require,
            self.progress.first_pages,
            lambda: self._clock.ahead_ms,
            self._is_begun,
            self.settings.topics.half,
            page_size,
            relay,
        )

    def _plans(self, store: CheckpointStore) -> ReadableCheckpoint:
        # One is read in each batch, which took 7 ms through py4j and Hadoop.
        folder = local_folder(self.settings.checkpoint, self.settings.spark)
        return store if folder is None else LocalCheckpoint(folder)

    def _new_idling(self, *, is_long: bool) -> Idling:
        settings = self.settings
        watch = RecordWatch(
            f"{settings.application_id}-watch", self.settings.connection(), settings.topics.decided
        )
        # Relays deliver at once, so the job may take its time.
        pause_ms = RELAY_INTERVAL_MS if settings.relay else 0
        interval_s = (settings.trigger_interval_ms or pause_ms) / 1_000
        next_wake_ms = self.progress.next_wake_ms if is_long else self.now_ms
        return Idling(watch, self._stopping, next_wake_ms, interval_s, self.now_ms)

    def _started_facts(self, query: StreamingQuery) -> dict[str, Any]:
        log = log_path(self.settings.log_file)
        return {
            "application_id": self.settings.application_id,
            "query_id": query.id,
            "checkpoint": self.settings.checkpoint,
            "state_partitions": state_partitions(self.settings),
            "metrics_url": self._observed.url,
            "access_control": "on" if self.settings.acl_file else "off",
            "log_file": None if log is None else str(log),
        }

    def _watch(self, spark: SparkSession, query: StreamingQuery) -> bool:
        """Watch a query to its end; return whether another one is to follow, under other rules."""
        # Not the wall clock: set back by an hour it would silence the job for an hour.
        interval_s = self.settings.progress_interval_ms / 1_000
        next_line_s = time.monotonic() + interval_s
        read = OffsetPublisher(self.settings.application_id, self.settings.connection())
        while not self._stopping.is_set() and not wait_for_end(query, WATCH_S):
            self._observed.health.beat()
            if read.is_due():
                read.publish(self.progress.read)
                last = query.lastProgress
                self._observed.metrics.take_spark_progress(last, self._held_ms(last))
            self._look_at_topics()
            if time.monotonic() >= next_line_s:
                self._require_still_allowed()
                self._emit_line(query)
                if self._access.problem:
                    self.emit("access_rules_broken", {"problem": self._access.problem})
                next_line_s += interval_s
            if self._access.take_new_rules():
                self._stopping.set()
            self._observed.access_looked(self._access.problem)
        if self._is_over:
            self._observed.health.ending()
        if self._stopping.is_set():
            # Half a batch by other rules could never be finished.
            end_between_batches(spark, query, self._waits_for_batch)
        read.publish_last(self.progress.read)
        failure = query.exception()
        if not is_own_stop(failure) and (failure is not None or not self._stopping.is_set()):
            raise explain(failure, log_path(self.settings.log_file))
        self._emit_line(query)
        return not self._is_over and self._stopping.is_set()

    def _waits_for_batch(self) -> bool:
        """Return whether the batch at work has unlimited time; such a wait is no hang."""
        if self._is_over:
            return False
        self._observed.health.beat()
        return True

    def _look_at_topics(self) -> None:
        """Compare what was read with what the brokers have, every few seconds."""
        if self._is_over:
            return
        if self._stalls is None:
            self._stalls = InputWatch(
                self.settings, self._admin_client(), read=lambda: self.progress.read
            )
        if self._stalls.is_due():
            self._stalls.look()
            self._observed.unread_looked(self._stalls.unread)

    def _require_own_epoch(self) -> None:
        if self._epoch is not None:
            self._epoch.require_own()

    def _require_still_allowed(self) -> None:
        """Refuse to go on after a younger job, a wrong clock or another checkpoint's claim."""
        self._require_own_epoch()
        self._clock.compare_if_due()
        if self._claim is not None:
            self._claim.renew_if_due()

    def _emit_line(self, query: StreamingQuery) -> None:
        batch_ms = self._batch_ms(query.lastProgress)
        # A group is asked once a minute; the warning stays until a member answers.
        asked = self.progress.take_asked_groups() | self._silent
        silent, stalls, short = self._looked_at_brokers(asked)
        age_s = self._observed.health.batch_age_s()
        writing_ms = self.progress.writing_ms(time.monotonic())
        line = replace(
            self.progress.line(self.now_ms(), batch_ms),
            groups_without_members=silent,
            stalls=stalls,
            brokers_answer=self._stalls is None or self._stalls.brokers_answer,
            short_topics=short,
            unread=[] if self._stalls is None else self._stalls.unread,
            batch_age_ms=None if age_s is None else int(age_s * 1_000),
            writing_ms=writing_ms,
            waits_for=awaited(writing_ms),
        )
        self._silent = set(silent) if line.pending else set()
        self._observed.line_told(asked, line)
        self.emit("progress", line)

    def _looked_at_brokers(
        self, asked: set[str]
    ) -> tuple[list[str], list[Stall], list[ShortTopic]]:
        """Return silent groups, partitions that stand still, and topics that lack replicas.

        A job that ends does not ask for its last line: silent brokers would delay the end
        that SIGTERM asks for.
        """
        if self._is_over:
            return [], [], []
        names = self.settings.topics
        silent = groups_without_members(self._admin_client(), names, asked) if asked else []
        stalls = [] if self._stalls is None else self._stalls.look()
        return silent, stalls, self._awaited_for_replicas()

    def _awaited_for_replicas(self) -> list[ShortTopic]:
        answer = self._stalls is not None and self._stalls.brokers_answer
        writing_ms = self.progress.writing_ms(time.monotonic()) or 0
        if self._epoch is None or not answer or writing_ms < SLOW_MS:
            return []
        return short_topics(self._epoch.settings, state_partitions(self.settings))

    def _held_ms(self, last: StreamingQueryProgress | None) -> int:
        if last is None or self._idling is None:
            return 0
        return self._idling.held_ms_of(last.batchId)

    def _batch_ms(self, last: StreamingQueryProgress | None) -> int | None:
        if last is None:
            return None
        return max(0, last.durationMs.get("triggerExecution", 0) - self._held_ms(last))

    def _admin_client(self) -> AdminClient:
        # Made on first use, then kept: each client has threads and connections of its own.
        if self._admin is None:
            self._admin = AdminClient(self.settings.connection())
        return self._admin
