"""Another number of state partitions for a checkpoint whose job has ended.

Spark rewrites the state and appends a batch without data or sink (StreamingCheckpointManager,
Spark 4.2): its plan first, then the state, then its commit. Our own file says the number, too, and
is written last, so whatever is left half done shows as a difference between the two, which the
start refuses and a second try ends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from py4j.protocol import Py4JJavaError

from checkback.checkpoints.files import HadoopFiles
from checkback.checkpoints.folder import CheckpointFolder
from checkback.checkpoints.identity import FILE, CheckpointIdentity
from checkback.checkpoints.logs import PlannedBatch, parse_offsets
from checkback.checkpoints.status import wake_state_readers
from checkback.checkpoints.verification import Verification
from checkback.protocol.errors import CheckpointError, UsageError


class Step(StrEnum):
    """Where a repartition has to begin."""

    FROM_THE_START = "from the start"
    SPARK_AGAIN = "Spark's part again"
    OUR_FILE = "our own file"


@dataclass(frozen=True, slots=True)
class RepartitionPlan:
    """What a repartition has to do.

    Args:
        before: state partitions now.
        after: state partitions wanted.
        step: where to begin.
        dropped: batch that is planned and not begun, whose plan is dropped; None for none.
    """

    before: int
    after: int
    step: Step
    dropped: int | None


def plan_repartition(
    found: Verification, newest: PlannedBatch | None, partitions: int
) -> RepartitionPlan:
    """Return what has to be done.

    Args:
        found: the verified checkpoint; where an earlier try was left half done, the difference of
            numbers is the one problem it may have.
        newest: the newest plan, None before the first batch.
        partitions: how many state partitions are wanted.

    Raises:
        UsageError: it has that number already.
        CheckpointError: it is damaged, never finished a batch, or another repartition was begun.
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
            remedy="See `checkback checkpoint verify`.",
        )
    before, planned = found.identity.state_partitions, newest.state_partitions
    is_open = found.planned_batch != found.committed_batch
    if planned == before:
        if planned == partitions:
            raise UsageError(f"The checkpoint has {partitions} state partitions already.")
        dropped = found.planned_batch if is_open else None
        return RepartitionPlan(before, partitions, Step.FROM_THE_START, dropped)
    if planned != partitions:
        raise CheckpointError(
            f"A repartition to {planned} state partitions was left half done.",
            remedy=f"Run `checkback checkpoint repartition {planned}` first.",
        )
    step = Step.SPARK_AGAIN if is_open else Step.OUR_FILE
    return RepartitionPlan(before, partitions, step, None)


def newest_plan(files: HadoopFiles, found: Verification) -> PlannedBatch | None:
    """Return the newest plan of a verified checkpoint, None before the first batch."""
    if found.planned_batch is None:
        return None
    return parse_offsets(files.read(f"offsets/{found.planned_batch}"))


def drop_plan(files: HadoopFiles, batch_id: int) -> None:
    """Forget a batch that is planned and of which nothing was written: it is planned anew."""
    files.delete(f"offsets/{batch_id}")


def rewrite_state(folder: CheckpointFolder, partitions: int) -> None:
    """Let Spark write the state anew in that many partitions, as a batch without data.

    Raises:
        CheckpointError: Spark refuses; the checkpoint can still be used as it was, or tried again.
    """
    spark = folder.spark
    wake_state_readers(spark)
    manager = spark._streamingCheckpointManager  # noqa: SLF001 - Spark's own name, experimental
    try:
        manager.repartition(folder.path, partitions, enforce_exactly_once_sink=True)
    except Py4JJavaError as error:
        said = str(error.java_exception.getMessage()).partition("\n")[0]
        raise CheckpointError(
            f"Spark could not repartition {folder.path}: {said}",
            remedy="Run the same command again; see docs/operating/checkpoints.md.",
        ) from error


def record_partitions(
    folder: CheckpointFolder, identity: CheckpointIdentity, partitions: int
) -> None:
    """Write down that the checkpoint has so many state partitions from now on."""
    folder.write(FILE, replace(identity, state_partitions=partitions).to_json())
