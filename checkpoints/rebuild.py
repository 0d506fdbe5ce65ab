"""``checkback checkpoint rebuild``: a checkpoint anew, from the topics alone or by cutting its end.

The order is what makes it safe. Whoever wrote before is ended for good, and what he left open is
aborted; then the marks are complete, and say what is done. The new query's first batch writes what
was left to do in the pipeline's own way, marks and markers in the same Kafka transactions: a
rebuild that dies is begun again, and finds done what is done. The identity is written last, so
nothing starts over half a checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any, Final, Literal

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from checkback.checkpoints.identity import FILE as IDENTITY
from checkback.checkpoints.rebuild_folder import FIRST_PLAN, RebuildFolder
from checkback.checkpoints.rebuild_history import (
    HistorySettings,
    counts_of,
    known_halves,
    restored_rows,
)
from checkback.checkpoints.rebuild_positions import (
    Positions,
    find_positions,
    wait_for_open_transactions,
)
from checkback.checkpoints.rebuild_predecessors import (
    Predecessor,
    end_predecessors,
    find_predecessors,
    require_silence,
    still_running,
)
from checkback.checkpoints.rebuild_query import plan_with_position, run_first_batch
from checkback.checkpoints.rebuild_tail import Cut, find_cut
from checkback.checkpoints.restored_page import RestoredCounts
from checkback.checkpoints.rules import record_rules
from checkback.checkpoints.verification import Verification
from checkback.operations.verifying import verify_files
from checkback.protocol.configuration import Settings
from checkback.protocol.connection import confluent_settings, spark_settings
from checkback.protocol.errors import CheckpointError, UsageError
from checkback.protocol.topics import TopicNames
from checkback.sinks.settings import SinkSettings
from checkback.state import Rules
from checkback.streaming.claim import mark_won
from checkback.streaming.failure import explain
from checkback.streaming.job import BatchSink, open_ledger, sink_settings
from checkback.streaming.pages import PageSettings
from checkback.streaming.preflight import (
    ClusterFacts,
    identity_of,
    look_at_cluster,
    require_settings,
)
from checkback.streaming.progress import Progress
from checkback.streaming.session import start_session
from checkback.streaming.takeover import take_over

WATCH_S: Final = 3.0
TRIGGER_WATCH_S_MAX: Final = 30.0
OPEN_TRANSACTION_MARGIN_S: Final = 30.0

How = Literal["nothing", "cut", "from topics"]
Unknown = Literal["pending", "settled"]


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """What was done, or would be.

    Args:
        how: nothing, where the checkpoint is whole; cut; or from topics.
        dry_run: whether it was only looked at.
        checkpoint: its path.
        problems: what was wrong with it; empty where there was none.
        cut: what goes from its end, for a cut.
        moved_to: where the damaged one is now; "" where there was none.
        ended_queries: ids of the queries that can't write any more.
        query_id: of the rebuilt checkpoint; "" where it is not made.
        counts: what the topics told; None for a cut.
        first_batch: counts of what the first batch decided and wrote.
    """

    how: How
    dry_run: bool
    checkpoint: str
    problems: tuple[dict[str, str], ...] = ()
    cut: Cut | None = None
    moved_to: str = ""
    ended_queries: tuple[str, ...] = ()
    query_id: str = ""
    counts: RestoredCounts | None = None
    first_batch: dict[str, int] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "how": self.how,
            "dry_run": self.dry_run,
            "checkpoint": self.checkpoint,
            "problems": list(self.problems),
            "cut": None if self.cut is None else asdict(self.cut),
            "moved_to": self.moved_to,
            "ended_queries": list(self.ended_queries),
            "query_id": self.query_id,
            "counts": None if self.counts is None else asdict(self.counts),
            "first_batch": self.first_batch,
        }


@dataclass(slots=True)
class Rebuild:
    """One rebuild.

    Args:
        settings: the pipeline's.
        jars: Kafka source and Delta.
        is_certain: do it; else only say what would be done.
        anew: from the topics, though the checkpoint is whole or could be mended.
        unknown_are: what halves whose marks may be gone are taken for; None: refuse to.
    """

    settings: Settings
    jars: list[Path]
    is_certain: bool
    anew: bool = False
    unknown_are: Unknown | None = None

    def run(self) -> RebuildReport:
        """Do it, and return what was done.

        Raises:
            CheckpointError: a job still runs, or the topics do not tell enough; says what.
            BrokerError: Kafka is not as needed.
            OperationalError: the first batch failed.
        """
        with _session(self.settings, self.jars) as spark:
            return self.run_in(spark)

    def run_in(self, spark: SparkSession) -> RebuildReport:
        """Do it in a session that is there; raises as `run` does."""
        return self._work().run(spark, is_certain=self.is_certain, anew=self.anew)

    def _work(self) -> _Work:
        settings = self.settings
        require_settings(settings)
        connection = confluent_settings(settings.bootstrap_servers, settings.kafka)
        facts = look_at_cluster(settings, connection)
        if settings.sink_transaction_timeout_ms is None:
            # The first batch may have much to write.
            settings = replace(
                settings, sink_transaction_timeout_ms=facts.transaction_timeout_max_ms
            )
        return _Work(settings, connection, facts, self.unknown_are)


@dataclass(frozen=True, slots=True)
class _Work:
    settings: Settings
    connection: dict[str, Any]
    facts: ClusterFacts
    unknown_are: Unknown | None

    def run(self, spark: SparkSession, *, is_certain: bool, anew: bool) -> RebuildReport:
        folder = RebuildFolder(spark, self.settings.checkpoint)
        is_there = bool(folder.files.sizes()) and not folder.is_unfinished
        found = verify_files(self.settings, folder.files) if is_there else Verification()
        if is_there:
            self._require_ours(found)
            if found.is_whole and not anew:
                return RebuildReport("nothing", not is_certain, folder.path)
        predecessors = find_predecessors(self._sink(""), self._partitions(self._names.settled))
        self._require_no_job(folder, predecessors)
        cut = find_cut(found, folder.files.sizes()) if is_there and not anew else None
        problems = tuple(asdict(problem) for problem in found.problems)
        if cut is not None:
            report = self._cut(folder, cut, is_certain=is_certain)
        elif is_certain:
            report = self._from_topics(folder, is_there=is_there)
        else:
            report = self._look_at_topics(folder, predecessors)
        return replace(report, problems=problems)

    def _cut(self, folder: RebuildFolder, cut: Cut, *, is_certain: bool) -> RebuildReport:
        report = RebuildReport("cut", not is_certain, folder.path, cut=cut)
        if not is_certain:
            return report
        query_id = folder.checkpoint.query_id() or ""
        # A session of its own: a job that still runs ends before anything is taken from it.
        partitions = verify_files(self.settings, folder.files).state_partitions
        fitted = replace(self.settings, state_partitions=partitions)
        take_over(self._sink(query_id), fitted, self.facts, folder.checkpoint)
        # The youngest first: whatever is left by a crash in between is a tail to cut again.
        for name in sorted(cut.files, key=_batch_number, reverse=True):
            folder.delete(name)
        left = verify_files(self.settings, folder.files)
        if not left.is_whole:
            raise CheckpointError(
                f"The end of {folder.path} was cut off, and it is still not whole: "
                f"{left.problems[0].says}",
                remedy="Run `checkback checkpoint rebuild --anew`.",
                problems=[asdict(problem) for problem in left.problems],
            )
        return replace(report, query_id=query_id)

    def _look_at_topics(
        self, folder: RebuildFolder, predecessors: list[Predecessor]
    ) -> RebuildReport:
        positions = self._positions()
        counts = counts_of(self._history(folder.spark, positions, _now_ms()))
        ended = tuple(one.query_id for one in predecessors)
        return RebuildReport("from topics", True, folder.path, ended_queries=ended, counts=counts)

    def _from_topics(self, folder: RebuildFolder, *, is_there: bool) -> RebuildReport:
        moved_to = folder.move_aside() if is_there else ""
        folder.delete()
        now_ms = _now_ms()
        folder.begin(now_ms)
        # Our own markers first: of two rebuilds at the same moment each finds the other's, or one.
        own = self._sink(folder.checkpoint.make_query_id())
        sink = take_over(own, self.settings, self.facts, folder.checkpoint)
        ended = self._end_predecessors(sink)
        positions = self._positions()
        self._history(folder.spark, positions, now_ms).write.parquet(folder.rows)
        counts = counts_of(folder.spark.read.parquet(folder.rows))
        require_sound(counts, positions, self.unknown_are)
        first_batch = self._first_batch(folder, sink, now_ms)
        ends = positions.ends([self._names.half, self._names.op])
        folder.replace(FIRST_PLAN, plan_with_position(folder.read(FIRST_PLAN), ends))
        self._seal(folder, sink.query_id)
        return RebuildReport(
            "from topics",
            False,
            folder.path,
            moved_to=moved_to,
            ended_queries=ended,
            query_id=sink.query_id,
            counts=counts,
            first_batch=first_batch,
        )

    def _end_predecessors(self, sink: SinkSettings) -> tuple[str, ...]:
        """End whoever wrote before, and wait until all that was written can be read."""
        settled = self._names.settled
        predecessors = find_predecessors(sink, self._partitions(settled))
        end_predecessors(predecessors)
        timeout_s = sink.transaction_timeout_ms / 1_000 + OPEN_TRANSACTION_MARGIN_S
        wait_for_open_transactions(self.connection, settled, self._partitions(settled), timeout_s)
        return tuple(one.query_id for one in predecessors)

    def _first_batch(
        self, folder: RebuildFolder, sink: SinkSettings, now_ms: int
    ) -> dict[str, int]:
        rules = record_rules(folder.checkpoint, now_ms, self._rules)
        identity = identity_of(self.settings, self.facts)
        pages = PageSettings(identity.page_size, rules, identity.page_keys)
        progress = Progress()
        ledger = open_ledger(self.settings, self.facts)
        write_batch = BatchSink(sink, progress, Event(), ledger)
        try:
            run_first_batch(folder.spark, folder.rows, folder.path, pages, write_batch)
        except StreamingQueryException as failure:
            raise explain(failure) from failure
        return dict(progress.totals)

    def _seal(self, folder: RebuildFolder, query_id: str) -> None:
        if folder.checkpoint.query_id() != query_id:
            raise still_running(f"another rebuild has begun in {folder.path}")
        folder.delete("sources")
        folder.delete(folder.rows.removeprefix(folder.path.rstrip("/") + "/"))
        mark_won(folder.checkpoint)
        folder.checkpoint.write(IDENTITY, identity_of(self.settings, self.facts).to_json())
        folder.finish()

    def _history(self, spark: SparkSession, positions: Positions, now_ms: int) -> DataFrame:
        settings = self.settings
        settled = self.unknown_are == "settled"
        known = known_halves(positions, self._names.half, unknown_are_settled=settled)
        history = HistorySettings(settings.offsets_per_page, now_ms, self._rules, known)
        source = spark_settings(settings.bootstrap_servers, settings.kafka)
        return restored_rows(spark, source, self._names, positions, history)

    def _positions(self) -> Positions:
        names = self._names
        topics = (names.half, names.op, names.settled, names.refused)
        partitions = {topic: self._partitions(topic) for topic in topics}
        return find_positions(self.connection, names, partitions)

    def _require_ours(self, found: Verification) -> None:
        if found.identity is not None:
            now = identity_of(self.settings, self.facts)
            same = replace(
                found.identity, page_size=now.page_size, state_partitions=now.state_partitions
            )
            same.require_same(now)
        elif found.query_id is None:
            raise UsageError(
                f"{self.settings.checkpoint} is not empty and not a checkpoint of Checkback.",
                remedy="Give the checkpoint that is to be rebuilt, or an empty folder.",
                checkpoint=self.settings.checkpoint,
            )

    def _require_no_job(self, folder: RebuildFolder, predecessors: list[Predecessor]) -> None:
        """Refuse while a job plans batches in the folder, or writes to the settled topic."""
        planned = folder.checkpoint.last_batch("offsets")
        watch_s = WATCH_S + min(self.settings.trigger_interval_ms / 1_000, TRIGGER_WATCH_S_MAX)
        if planned is not None and not predecessors:
            time.sleep(watch_s)
        require_silence(predecessors, self._partitions(self._names.settled), watch_s)
        if folder.checkpoint.last_batch("offsets") != planned:
            raise still_running(f"it has just planned a batch in {folder.path}")

    def _sink(self, query_id: str) -> SinkSettings:
        return sink_settings(self.settings, self.connection, query_id)

    def _partitions(self, topic: str) -> int:
        return self.facts.topics[topic].partitions

    @property
    def _names(self) -> TopicNames:
        return self.settings.topics

    @property
    def _rules(self) -> Rules:
        return Rules.from_settings(self.settings)


def require_sound(
    counts: RestoredCounts, positions: Positions, unknown_are: Unknown | None
) -> None:
    """Refuse to rebuild from topics that do not tell enough, or of something else.

    Raises:
        CheckpointError: says what is at risk.
    """
    if counts.foreign:
        raise CheckpointError(
            f"{counts.foreign} marks of the settled topic are not of these halves: the half topic "
            "was made anew, or the settled one belongs to another.",
            remedy="See docs/operating/recovering.md.",
            foreign=counts.foreign,
        )
    if counts.unknown and unknown_are is None:
        raise CheckpointError(
            f"{counts.unknown} halves may be settled or not: they are older than the oldest mark "
            f"that is kept ({positions.marks_from_ms} ms since 1970). Taken for pending, their "
            "final messages could be written twice.",
            remedy="Read docs/operating/recovering.md, then choose with --unknown-are.",
            unknown=counts.unknown,
            marks_from_ms=positions.marks_from_ms,
        )


@contextmanager
def _session(settings: Settings, jars: list[Path]) -> Iterator[SparkSession]:
    spark = start_session(settings, jars)
    try:
        yield spark
    finally:
        spark.stop()


def _batch_number(name: str) -> tuple[int, str]:
    log, _, number = name.partition("/")
    return int(number), log


def _now_ms() -> int:
    return int(time.time() * 1_000)
