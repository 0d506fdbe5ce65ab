"""``checkback checkpoint repartition``: the steps, and what must hold before each.

Nothing of the checkpoint is touched before the session is taken over: from then on no older job can
commit anything, nor can a worker that outlived its driver, so what the markers say stays true.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions

from checkback.checkpoints.files import files_of
from checkback.checkpoints.folder import CheckpointFolder
from checkback.checkpoints.repartition import (
    RepartitionPlan,
    Step,
    drop_plan,
    newest_plan,
    plan_repartition,
    record_partitions,
    rewrite_state,
)
from checkback.checkpoints.verification import Verification, compare_markers, verify
from checkback.operations.checkpoint_files import marker_settings, read_markers
from checkback.operations.liveness import require_stopped
from checkback.operations.verifying import ledger_batch
from checkback.protocol.configuration import Settings
from checkback.protocol.connection import confluent_settings
from checkback.protocol.errors import BrokerError, CheckpointError
from checkback.sinks.kafka_error import cause_of
from checkback.sinks.session import begin_session
from checkback.sinks.settings import SinkSettings

TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Repartitioned:
    """What a repartition did.

    Args:
        before: state partitions before.
        after: state partitions now.
        batch_id: the batch without data that holds the new state.
        dropped_batch: batch that was planned and not begun, and will be planned anew; or None.
        settled_partitions_added: partitions that the settled topic was given.
    """

    before: int
    after: int
    batch_id: int
    dropped_batch: int | None
    settled_partitions_added: int

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


def repartition(settings: Settings, folder: CheckpointFolder, partitions: int) -> Repartitioned:
    """Give a checkpoint another number of state partitions.

    Args:
        settings: the pipeline's.
        folder: the checkpoint; its job has ended.
        partitions: how many.

    Raises:
        UsageError: it has that number already.
        CheckpointError: a job is at work over it, it is damaged, or its last batch is half written.
        BrokerError: Kafka did not take what it must take.
    """
    files = files_of(folder.spark, folder.path)
    found = verify(files)
    plan = plan_repartition(found, newest_plan(files, found), partitions)
    require_stopped(files, settings)
    sink = marker_settings(settings, found.query_id or "", found.identity)
    found = replace(found, ledger_batch=ledger_batch(settings, sink.query_id))
    _take_over(sink, found, plan)
    added = _grow_settled(settings, partitions)
    if plan.after > plan.before:
        # New ones begin where the old ones stand: all that is committed is written.
        begin_session(sink, plan.after, range(plan.before), _next_batch(found))
    if plan.dropped is not None:
        drop_plan(files, plan.dropped)
    if plan.step is not Step.OUR_FILE:
        rewrite_state(folder, partitions)
    if found.identity is not None:
        record_partitions(folder, found.identity, partitions)
    batch_id = folder.last_batch("commits") or 0
    return Repartitioned(plan.before, plan.after, batch_id, plan.dropped, added)


def look_ahead(folder: CheckpointFolder, partitions: int) -> RepartitionPlan:
    """Return what a repartition would do, without looking whether a job is at work.

    Raises:
        UsageError, CheckpointError: as for repartition.
    """
    files = files_of(folder.spark, folder.path)
    found = verify(files)
    return plan_repartition(found, newest_plan(files, found), partitions)


def _take_over(sink: SinkSettings, found: Verification, plan: RepartitionPlan) -> None:
    """End every writer, then compare what is written with what is planned."""
    compared = compare_markers(found, read_markers(sink, plan.before), sink.marker_group)
    contradictions = [one for one in compared.problems if one.code.startswith("marker")]
    if contradictions:
        raise CheckpointError(contradictions[0].says, remedy=contradictions[0].remedy)
    begin_session(sink, plan.before, range(plan.before), _next_batch(found))
    written = replace(found, markers=read_markers(sink, plan.before)).written_batch
    if plan.dropped is not None and written is not None and written >= plan.dropped:
        raise CheckpointError(
            f"Batch {plan.dropped} is written in part.",
            remedy="Start the pipeline, which ends that batch, stop it with SIGTERM, try again.",
            batch_id=plan.dropped,
        )


def _next_batch(found: Verification) -> int:
    return 0 if found.committed_batch is None else found.committed_batch + 1


def _grow_settled(settings: Settings, partitions: int) -> int:
    """Give the settled topic a partition per state partition; return how many were added."""
    topic = settings.topics.settled
    connection = confluent_settings(settings.bootstrap_servers, settings.kafka)
    admin = AdminClient({**connection, "log_level": 2})
    try:
        there = len(admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions)
        if there >= partitions:
            return 0
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(TIMEOUT_S)
    except KafkaException as error:
        raise BrokerError(
            f"{topic} can't be given {partitions} partitions: {cause_of(error).str()}.",
            remedy="Give it that many yourself, or ask for the right to alter it.",
            topic=topic,
        ) from error
    return partitions - there
