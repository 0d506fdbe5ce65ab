"""``checkback checkpoint rebuild``: rebuild a checkpoint from the topics.

The order of the steps makes it safe. First the rebuild reads the topics and refuses if they do not
hold enough; nothing is changed by then. Then it fences every earlier query for good and
aborts its open Kafka transactions. From then on the marks are complete and say what is settled.
Then the first batch of the new query writes the remaining output as the pipeline does: marks and
markers are in the same Kafka transactions as the output. So a rebuild that dies can begin again,
and finds marked what it has written. The identity is written last, so nothing starts over half a
checkpoint.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from confluent_kafka.admin import AdminClient
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from checkback.checkpoints.files import OUR_FOLDER
from checkback.checkpoints.own_files.decided_topic import FILE as DECIDED_TOPIC
from checkback.checkpoints.own_files.decided_topic import KnownDecidedTopic
from checkback.checkpoints.own_files.identity import FILE as IDENTITY
from checkback.checkpoints.own_files.relay_terms import Spans
from checkback.checkpoints.spark_files.logs import plan_with_ends
from checkback.checkpoints.store import CheckpointStore
from checkback.operations.checkpoint.open import require_not_running, still_running
from checkback.operations.checkpoint.verification import Problem, Verification
from checkback.operations.checkpoint.verify import verify_files
from checkback.operations.rebuild.first_batch import run_first_batch
from checkback.operations.rebuild.page import RestoredCounts
from checkback.operations.rebuild.predecessors import (
    Predecessor,
    end_predecessors,
    find_predecessors,
    require_silence,
)
from checkback.operations.rebuild.relayed import spans_on
from checkback.operations.rebuild.topic_pages import (
    HistorySettings,
    counts_of,
    known_halves,
    read_topic,
    restored_rows,
)
from checkback.operations.rebuild.topic_spans import (
    TopicSpans,
    find_spans,
)
from checkback.operations.transactions.timestamps import now_ms
from checkback.protocol.configuration import Settings
from checkback.protocol.connection import spark_settings
from checkback.protocol.errors import CheckpointError, UsageError
from checkback.protocol.topics import TopicNames
from checkback.sinks.kafka.cluster.described_topics import DescribedTopic, describe_topics
from checkback.sinks.kafka.read.list_offsets import ends_without_transactions
from checkback.sinks.kafka.read.rule_source import present_rules
from checkback.sinks.settings import SinkSettings
from checkback.state import Rules
from checkback.streaming.batch.run_batch import write_outcomes
from checkback.streaming.job.query_failure import explain
from checkback.streaming.pages.page_function import PageSettings
from checkback.streaming.pages.page_key import PageKeys
from checkback.streaming.source.kafka_source import pem_text
from checkback.streaming.spark.driver_jvm import log_path
from checkback.streaming.spark.session import start_session
from checkback.streaming.start.preflight import (
    TIMEOUT_S,
    ClusterFacts,
    identity_of,
    look_at_cluster,
    require_settings,
    require_settled_fit,
)
from checkback.streaming.start.sink_choices import open_ledger, sink_settings
from checkback.streaming.start.takeover import fence_older
from checkback.streaming.start.topic_claim import claimed_half_topic, mark_won

WATCH_S: Final = 3.0
TRIGGER_WATCH_S_MAX: Final = 30.0
CHOSEN_AT_REBUILD: Final = ("page_size", "state_partitions", "order", "op_topic_id")
"""What a checkpoint may have had otherwise. Without the old ops every half that waits is asked
about."""
OPEN_TRANSACTION_MARGIN_S: Final = 30.0
FILE: Final = "rebuilding.json"
"""Marks a folder as one that is being rebuilt. Without an identity such a folder holds nothing that
the topics do not hold, too. No pipeline starts over it: the identity is written last."""
ROWS: Final = f"{OUR_FOLDER}/restored"
"""The folder of the restored rows until they become state."""

How = Literal["nothing", "from topics"]
Unknown = Literal["pending", "settled"]


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """What a rebuild did, or would do.

    Args:
        how: "nothing" for a whole checkpoint, or "from topics".
        problems: what was wrong with it; empty if nothing was.
        moved_to: the new path of the damaged checkpoint; "" if there was none.
        ended_queries: ids of the queries that were fenced for good.
        query_id: query id of the rebuilt checkpoint; "" if none was rebuilt.
        counts: counts of what the topics hold; None for a whole checkpoint.
        first_batch: counts of decisions and output of the first batch.
    """

    how: How
    dry_run: bool
    checkpoint: str
    problems: tuple[dict[str, str], ...] = ()
    moved_to: str = ""
    ended_queries: tuple[str, ...] = ()
    query_id: str = ""
    counts: RestoredCounts | None = None
    first_batch: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Rebuild:
    """One rebuild.

    Args:
        is_certain: do it; else only report what would be done.
        from_topics: read the topics even if the checkpoint is whole.
        unknown_are: how to treat halves whose marks may be gone; None: refuse.
    """

    settings: Settings
    jars: list[Path]
    is_certain: bool
    from_topics: bool = False
    unknown_are: Unknown | None = None
    connection: dict[str, Any] = field(init=False)
    facts: ClusterFacts = field(init=False)
    spark: SparkSession = field(init=False)
    store: CheckpointStore = field(init=False)

    def run(self) -> RebuildReport:
        """Rebuild the checkpoint and return what was done.

        Raises:
            CheckpointError: a job still runs, or the topics do not hold enough; says what is
                missing.
            BrokerError: Kafka is not as needed.
            OperationalError: the first batch failed.
        """
        require_settings(self.settings)  # before Spark, which takes ten seconds to start
        spark = start_session(self.settings, self.jars)
        try:
            return self.run_in(spark)
        finally:
            spark.stop()

    def run_in(self, spark: SparkSession) -> RebuildReport:
        """Like `run`, in an existing Spark session."""
        self.connection, self.spark = self.settings.connection(), spark
        self.facts = look_at_cluster(self.settings, self.connection)
        if self.settings.sink_transaction_timeout_ms is None:
            # The first batch may write a lot.
            longest_ms = self.facts.transaction_timeout_max_ms
            self.settings = replace(self.settings, sink_transaction_timeout_ms=longest_ms)
        self.store = store = CheckpointStore.of(spark, self.settings.checkpoint)
        is_there = bool(store.sizes()) and not is_unfinished(store)
        found = verify_files(self.settings, store) if is_there else Verification()
        if is_there:
            self._require_ours(found)
            found = self._over_present_op_topic(found)
            if found.is_whole and not self.from_topics:
                return RebuildReport("nothing", not self.is_certain, store.path)
        bound = found.identity
        if self.settings.state_partitions is None and bound is not None:
            # Not this machine's number of cores: the settled topic has room for that many.
            self.settings = replace(self.settings, state_partitions=bound.state_partitions)
        require_settled_fit(self.settings, self.facts.topics)
        return self._rebuilt(found, is_there=is_there)

    def _rebuilt(self, found: Verification, *, is_there: bool) -> RebuildReport:
        predecessors = find_predecessors(self._sink(""), self._partitions(self._names.settled))
        self._require_no_job(predecessors)
        problems = tuple(asdict(problem) for problem in found.problems)
        is_marked_topic = self._is_marked_topic(found)
        positions = self._positions()
        counts = counts_of(self._history(positions, now_ms(), is_marked_topic=is_marked_topic))
        if self.is_certain:
            # Before anything is changed: a rebuild that refuses leaves a deployment as it was.
            require_sound(counts, positions, self.unknown_are)
            report = self._from_topics(is_there=is_there, is_marked_topic=is_marked_topic)
        else:
            ended = tuple(found.query_id for found in predecessors)
            report = RebuildReport(
                "from topics", True, self.store.path, ended_queries=ended, counts=counts
            )
        return replace(report, problems=problems)

    def _from_topics(self, *, is_there: bool, is_marked_topic: bool) -> RebuildReport:
        store = self.store
        moved_to = store.move_aside() if is_there else ""
        store.delete_all()
        begun_ms = now_ms()
        store.replace_own(FILE, json.dumps({"began_at_ms": begun_ms}))
        # Our own markers first: of two rebuilds at the same moment at least one then finds the
        # other's.
        own = self._sink(store.make_query_id())
        sink = fence_older(own, self.settings, self.facts, store)
        ended = self._end_predecessors(sink)
        positions = self._positions()
        history = self._history(positions, begun_ms, is_marked_topic=is_marked_topic)
        history.write.parquet(self._rows)
        counts = counts_of(self.spark.read.parquet(self._rows))
        require_sound(counts, positions, self.unknown_are)
        relayed = self._relayed(positions)
        first_batch = self._first_batch(sink, relayed)
        decided = () if relayed is None else (self._names.decided,)
        ends = positions.ends((*self._names.read, *decided))
        plan = plan_with_ends(store.read("offsets/0").decode(), ends)
        store.replace("offsets/0", plan)
        self._seal(sink.query_id, relayed)
        return RebuildReport(
            "from topics",
            False,
            store.path,
            moved_to=moved_to,
            ended_queries=ended,
            query_id=sink.query_id,
            counts=counts,
            first_batch=first_batch,
        )

    def _end_predecessors(self, sink: SinkSettings) -> tuple[str, ...]:
        """Fence every earlier query, and wait until all its records can be read."""
        settled = self._names.settled
        predecessors = find_predecessors(sink, self._partitions(settled))
        end_predecessors(predecessors)
        timeout_s = sink.transaction_timeout_ms / 1_000 + OPEN_TRANSACTION_MARGIN_S
        ends_without_transactions(self.connection, settled, self._partitions(settled), timeout_s)
        return tuple(one.query_id for one in predecessors)

    def _first_batch(self, sink: SinkSettings, relayed: Spans | None) -> dict[str, int]:
        identity = identity_of(self.settings, self.facts)
        keys = PageKeys.of(identity)
        pages = PageSettings(identity.page_size, keys)
        ledger = open_ledger(self.settings, self.facts)
        counts: Counter[str] = Counter()

        def write_batch(outcomes: DataFrame, batch_id: int) -> None:
            counts.update(write_outcomes(outcomes, batch_id, sink, ledger).counts)

        try:
            run_first_batch(
                self.spark, self._rows, self.store.path, pages, self._rules, write_batch, relayed
            )
        except StreamingQueryException as failure:
            raise explain(failure, log_path(self.settings.log_file)) from failure
        return dict(counts)

    def _seal(self, query_id: str, relayed: Spans | None) -> None:
        if self.store.query_id() != query_id:
            raise still_running(f"another rebuild has begun in {self.store.path}")
        self.store.delete("sources")
        self.store.delete(ROWS)
        mark_won(self.store)
        if relayed is not None:
            topic = self._described_decided()
            known = KnownDecidedTopic("" if topic is None else topic.topic_id, relayed)
            self.store.replace_own(DECIDED_TOPIC, known.to_json())
        self.store.replace_own(IDENTITY, identity_of(self.settings, self.facts).to_json())
        self.store.delete_own(FILE)

    def _history(self, positions: TopicSpans, now_ms: int, *, is_marked_topic: bool) -> DataFrame:
        settings, half = self.settings, self._names.half
        known = known_halves(positions, half, self.unknown_are, is_marked_topic=is_marked_topic)
        history = HistorySettings(settings.offsets_per_page, now_ms, self._rules, known)
        source = spark_settings(settings.bootstrap_servers, settings.kafka, pem_text)
        rules, names = present_rules(settings, may_be_part=False), self._names
        relayed = self._relayed(positions)
        return restored_rows(self.spark, source, names, positions, history, rules, relayed)

    def _relayed(self, positions: TopicSpans) -> Spans | None:
        """Return what relays took; None where there is no decided topic."""
        settings, decided = self.settings, self._names.decided
        if decided not in positions.spans:
            return None
        source = spark_settings(settings.bootstrap_servers, settings.kafka, pem_text)
        op_topic_id = self.facts.topics[self._names.op].topic_id
        return spans_on(read_topic(self.spark, source, decided, positions), op_topic_id)

    def _described_decided(self) -> DescribedTopic | None:
        """Return the decided topic; it may be there although relays are switched off."""
        admin, name = AdminClient(self.connection), self._names.decided
        if name not in admin.list_topics(timeout=TIMEOUT_S).topics:
            return None
        return describe_topics(admin, [name])[name]

    def _positions(self) -> TopicSpans:
        names, decided = self._names, self._described_decided()
        topics = (*names.read, names.settled, names.refused)
        partitions = {topic: self._partitions(topic) for topic in topics}
        if decided is not None:
            partitions[names.decided] = decided.partitions
        return find_spans(self.connection, names, partitions)

    def _require_ours(self, found: Verification) -> None:
        if found.identity is not None:
            now = identity_of(self.settings, self.facts)
            same = {name: getattr(now, name) for name in CHOSEN_AT_REBUILD}
            replace(found.identity, **same).require_same(now)
        elif found.query_id is None:
            raise UsageError(
                f"{self.settings.checkpoint} is neither empty nor a checkpoint of Checkback.",
                remedy="Name the checkpoint to rebuild, or an empty folder.",
            )

    def _over_present_op_topic(self, found: Verification) -> Verification:
        """Add the problem of a whole checkpoint that no start goes on with."""
        bound, op = found.identity, self._names.op
        if bound is None or bound.op_topic_id == self.facts.topics[op].topic_id:
            return found
        says = f"{op} was created again: the ops that were not read are gone."
        recreated = Problem("recreated", f"{OUR_FOLDER}/{IDENTITY}", says, "")
        return replace(found, problems=(*found.problems, recreated))

    def _is_marked_topic(self, found: Verification) -> bool:
        """Tell whether the half topic is known as the one that the marks are of.

        Raises:
            CheckpointError: the marks are of a half topic that was there before.
        """
        if found.identity is not None:  # whose topics are the present ones
            return True
        claimed = claimed_half_topic(self.settings, self.connection)
        if claimed and claimed != self.facts.topics[self._names.half].topic_id:
            raise CheckpointError(
                f"The marks on {self._names.settled} are of another {self._names.half}, which was "
                "there before.",
                remedy="See `checkback docs recovering`.",
                claimed=claimed,
            )
        return bool(claimed)

    def _require_no_job(self, predecessors: list[Predecessor]) -> None:
        """Refuse the rebuild while a job plans batches here or writes to the settled topic."""
        require_not_running(self.settings)
        planned = self.store.last_batch("offsets")
        watch_s = WATCH_S + min(self.settings.trigger_interval_ms / 1_000, TRIGGER_WATCH_S_MAX)
        if planned is not None and not predecessors:
            time.sleep(watch_s)
        require_silence(predecessors, self._partitions(self._names.settled), watch_s)
        if self.store.last_batch("offsets") != planned:
            raise still_running(f"it has just planned a batch in {self.store.path}")

    def _sink(self, query_id: str) -> SinkSettings:
        return sink_settings(self.settings, self.connection, query_id)

    def _partitions(self, topic: str) -> int:
        return self.facts.topics[topic].partitions

    @property
    def _rows(self) -> str:
        return f"{self.store.path.rstrip('/')}/{ROWS}"

    @property
    def _names(self) -> TopicNames:
        return self.settings.topics

    @property
    def _rules(self) -> Rules:
        return Rules.from_settings(self.settings)


def is_unfinished(store: CheckpointStore) -> bool:
    """Return whether an earlier rebuild is unfinished."""
    return store.read_own(FILE) is not None and store.read_own(IDENTITY) is None


def require_sound(
    counts: RestoredCounts, positions: TopicSpans, unknown_are: Unknown | None
) -> None:
    """Refuse to rebuild from topics that do not hold enough, or that belong to something else.

    Raises:
        CheckpointError: the topics can't be trusted; says what is at risk.
    """
    if counts.foreign:
        raise CheckpointError(
            f"{counts.foreign} marks on the settled topic do not match these halves: the half "
            "topic was recreated or lost its end, or the settled topic belongs to another one.",
            remedy="See `checkback docs recovering`.",
            foreign=counts.foreign,
        )
    if counts.unknown and unknown_are is None:
        raise CheckpointError(
            f"{counts.unknown} halves may be settled or not: they are older than the oldest mark "
            f"that is kept ({positions.marks_from_ms} ms since 1970). If treated as pending, their "
            "final messages could be written twice.",
            remedy="Read `checkback docs recovering`, then choose with --unknown-are.",
            unknown=counts.unknown,
            marks_from_ms=positions.marks_from_ms,
        )
