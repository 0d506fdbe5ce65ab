"""``checkback checkpoint repartition``: change the number of state partitions of a stopped job.

The repartition begins an epoch before it touches the checkpoint. From then on no older job and no
worker that outlived its driver can commit anything, so the markers stay valid. Spark then rewrites
the state and appends a batch without data or sink (StreamingCheckpointManager, Spark 4.2): first
its plan, then the state, then its commit. Checkback's identity file holds the number, too, and is
written last. An interrupted repartition therefore shows as a difference between the two numbers: a
start refuses that, and running the command again completes it.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from checkback.checkpoints.own_files.identity import FILE as IDENTITY
from checkback.checkpoints.spark_files.logs import PlannedBatch
from checkback.checkpoints.spark_internals import repartition_state, wake_state_readers
from checkback.checkpoints.store import CheckpointStore
from checkback.operations.checkpoint.open import (
    marker_settings,
    read_markers,
    require_not_running,
    still_running,
)
from checkback.operations.checkpoint.verification import Verification
from checkback.operations.checkpoint.verify import (
    compare_markers,
    ledger_batch,
    verify,
)
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import CheckpointError, UsageError
from checkback.sinks.kafka.cluster.transient_errors import broker_errors, retry_transient
from checkback.sinks.kafka.transaction.epoch import EpochWatch, begin_epoch
from checkback.sinks.settings import SinkSettings

TIMEOUT_S: Final = 30.0
LOOK_S: Final = 0.5
BATCH_S: Final = 4.0
"""Longer than an empty batch takes on a busy machine."""
LONGEST_LOOK_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class RepartitionPlan:
    """The work of a repartition.

    Args:
        is_rewritten: whether Spark has rewritten the state already, before an interruption.
        dropped: the batch that is planned and not begun, and will be planned again; or None.
    """

    before: int
    after: int
    is_rewritten: bool
    dropped: int | None


@dataclass(frozen=True, slots=True)
class Repartitioned:
    """The result of a repartition.

    Args:
        batch_id: the batch without data that holds the new state.
        dropped_batch: the batch that was planned but not begun, and will be planned again; or None.
    """

    before: int
    after: int
    batch_id: int
    dropped_batch: int | None
    settled_partitions_added: int


def repartition(
    settings: Settings, spark: SparkSession, store: CheckpointStore, partitions: int
) -> Repartitioned:
    """Change a checkpoint's number of state partitions.

    Raises:
        UsageError: it has that number already.
        CheckpointError: a job is using it, it is damaged, or its last batch is written in part.
        BrokerError: Kafka refused a change.
    """
    require_not_running(settings)
    found, plan = _plan_of(store, partitions)
    require_stopped(store, settings)
    sink = marker_settings(settings, found.query_id or "", found.identity)
    found = replace(found, ledger_batch=ledger_batch(settings, sink.query_id))
    fenced = _fence_older(sink, found, plan)
    # Verifying took a while, and the job's last batches may write nothing.
    if _last_batches(store) != (found.planned_batch, found.committed_batch):
        raise still_running(f"it has just made a batch in {settings.checkpoint}")
    added = _grow_settled(settings, partitions)
    if plan.after > plan.before:
        # New partitions begin where the old ones are: every committed batch is written.
        fenced = begin_epoch(sink, plan.after, range(plan.before), _next_batch(found))
    with closing(EpochWatch(fenced)) as watch:  # a job that starts beside it has a later epoch
        watch.require_own()
        if plan.dropped is not None:
            # None of its output was written, so Spark plans it again.
            store.delete(f"offsets/{plan.dropped}")
        if not plan.is_rewritten:
            rewrite_state(spark, store, partitions)
        watch.require_own()
    if found.identity is not None:
        bound = replace(found.identity, state_partitions=partitions)
        store.replace_own(IDENTITY, bound.to_json())
    batch_id = store.last_batch("commits") or 0
    return Repartitioned(plan.before, plan.after, batch_id, plan.dropped, added)


def look_ahead(settings: Settings, store: CheckpointStore, partitions: int) -> RepartitionPlan:
    """Return what a repartition would do."""
    require_not_running(settings)
    return _plan_of(store, partitions)[1]


def plan_repartition(
    found: Verification, newest: PlannedBatch | None, partitions: int
) -> RepartitionPlan:
    """Return the work that a repartition has to do.

    Args:
        found: the verified checkpoint; the only problem it may have is the difference of numbers
            that an interrupted repartition leaves.
        newest: the plan of the newest batch, None before the first.

    Raises:
        UsageError: it has that number already.
        CheckpointError: it is damaged, never finished a batch, or another repartition was
            interrupted.
    """
    if found.identity is None or newest is None or found.committed_batch is None:
        raise CheckpointError(
            "The checkpoint has no finished batch.",
            remedy="Start with an empty folder and the number of state partitions that you want.",
        )
    problems = [one for one in found.problems if one.code != "partitions"]
    if problems:
        raise CheckpointError(
            f"The checkpoint is not whole: {problems[0].file}: {problems[0].says}",
            remedy="Run `checkback checkpoint verify`.",
        )
    before, planned = found.identity.state_partitions, newest.state_partitions
    is_open = found.planned_batch != found.committed_batch
    if planned == before:
        if planned == partitions:
            raise UsageError(f"The checkpoint already has {partitions} state partitions.")
        dropped = found.planned_batch if is_open else None
        return RepartitionPlan(before, partitions, False, dropped)
    if planned != partitions:
        raise CheckpointError(
            f"A repartition to {planned} state partitions was interrupted.",
            remedy=f"Run `checkback checkpoint repartition {planned}` first.",
        )
    return RepartitionPlan(before, partitions, not is_open, None)


def require_stopped(store: CheckpointStore, settings: Settings) -> None:
    """Refuse to change a checkpoint that a running pipeline uses.

    On this machine's disks its lock tells. Elsewhere only a batch that it makes meanwhile does, and
    an idle pipeline makes few. A caller that must be sure begins an epoch as well.

    Raises:
        CheckpointError: one runs.
    """
    require_not_running(settings)
    first = _last_batches(store)
    looks = int(min(LONGEST_LOOK_S, BATCH_S + settings.trigger_interval_ms / 1_000) / LOOK_S)
    for _ in range(looks):
        time.sleep(LOOK_S)
        if _last_batches(store) != first:
            raise still_running(f"it has just made a batch in {settings.checkpoint}")


def rewrite_state(spark: SparkSession, store: CheckpointStore, partitions: int) -> None:
    """Let Spark rewrite the state into this many partitions, as a batch without data.

    Raises:
        CheckpointError: Spark refuses. The old checkpoint still works, and a second try may
            succeed.
    """
    wake_state_readers(spark)
    try:
        repartition_state(spark, store.path, partitions)
    except Py4JJavaError as error:
        said = str(error.java_exception.getMessage()).partition("\n")[0]
        raise CheckpointError(
            f"Spark could not repartition {store.path}: {said}",
            remedy="Run the same command again; see `checkback docs checkpoints`.",
        ) from error


def _plan_of(store: CheckpointStore, partitions: int) -> tuple[Verification, RepartitionPlan]:
    found = verify(store)
    newest = None if found.planned_batch is None else store.planned(found.planned_batch)
    return found, plan_repartition(found, newest, partitions)


def _fence_older(sink: SinkSettings, found: Verification, plan: RepartitionPlan) -> SinkSettings:
    """Fence every older writer; compare what was written with what was planned.

    Returns:
        The sink's settings, with the epoch that this repartition took.
    """
    compared = compare_markers(found, read_markers(sink, plan.before), sink.marker_group)
    contradictions = [one for one in compared.problems if one.code.startswith("marker")]
    if contradictions:
        raise CheckpointError(contradictions[0].says, remedy=contradictions[0].remedy)
    fenced = begin_epoch(sink, plan.before, range(plan.before), _next_batch(found))
    written = replace(found, markers=read_markers(sink, plan.before)).written_batch
    if plan.dropped is not None and written is not None and written >= plan.dropped:
        raise CheckpointError(
            f"Batch {plan.dropped} is written in part.",
            remedy="Start the pipeline: it completes that batch. Stop it with SIGTERM, try again.",
            batch_id=plan.dropped,
        )
    return fenced


def _next_batch(found: Verification) -> int:
    return 0 if found.committed_batch is None else found.committed_batch + 1


def _grow_settled(settings: Settings, partitions: int) -> int:
    """Extend the settled topic to one partition per state partition; return how many were added."""
    topic = settings.topics.settled
    admin = AdminClient(settings.connection())
    says = f"{topic} can't be extended to {partitions} partitions"
    remedy = "Check that all brokers are up; extend it yourself, or ask for the right to."
    with broker_errors(says, remedy, topic=topic):
        return retry_transient(lambda: _grown(admin, topic, partitions), TIMEOUT_S)


def _grown(admin: AdminClient, topic: str, partitions: int) -> int:
    found = admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
    if found.error is not None:  # else it would pass for one without partitions
        raise KafkaException(found.error)
    missing = partitions - len(found.partitions)
    if missing > 0:
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(TIMEOUT_S)
    return max(0, missing)


def _last_batches(store: CheckpointStore) -> tuple[int | None, int | None]:
    return store.last_batch("offsets"), store.last_batch("commits")
