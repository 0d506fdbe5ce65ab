"""Takes page size, order and partition count from the checkpoint; they can't change."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from checkback.checkpoints.files import ReadableCheckpoint
from checkback.checkpoints.own_files.identity import FILE, CheckpointIdentity
from checkback.checkpoints.spark_files.logs import SHUFFLE_PARTITIONS, BrokenLogError
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import CheckpointError
from checkback.streaming.spark.cores import state_partitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def fit_to_checkpoint(
    settings: Settings, spark: SparkSession, store: ReadableCheckpoint
) -> Settings:
    """Do as `filled_from_checkpoint`, and set Spark's number of state partitions."""
    found = filled_from_checkpoint(settings, store)
    if settings.state_partitions is None and found.state_partitions is not None:
        spark.conf.set(SHUFFLE_PARTITIONS, str(found.state_partitions))
    return found


def filled_from_checkpoint(settings: Settings, store: ReadableCheckpoint) -> Settings:
    """Return the settings, with what is unset filled in from the checkpoint.

    That is page size, order and state partitions.

    A value that the user set is kept; the check of the checkpoint's identity refuses another value.

    Raises:
        CheckpointError: a repartition was interrupted, or the checkpoint is damaged.
    """
    text = store.read_own(FILE)
    if text is None:
        return settings
    identity = CheckpointIdentity.from_json(text)
    bound = identity.state_partitions
    planned = _planned_partitions(store)
    if planned is not None and planned != bound:
        raise CheckpointError(
            f"The repartition of {settings.checkpoint} from {bound} to {planned} state partitions "
            "was interrupted.",
            remedy=f"Run `checkback checkpoint repartition {planned} --yes` to complete it.",
            before=bound,
            after=planned,
        )
    return replace(
        settings,
        order=settings.order or identity.order,
        page_size=settings.page_size or identity.page_size,
        state_partitions=settings.state_partitions or bound,
    )


def require_same_settings(settings: Settings, store: ReadableCheckpoint) -> None:
    """Refuse settings that a checkpoint was not made with; asks no broker.

    Raises:
        CheckpointError: names the first that differs; or as for `filled_from_checkpoint`.
    """
    text = store.read_own(FILE)
    if text is None:
        return
    fitting, bound = filled_from_checkpoint(settings, store), CheckpointIdentity.from_json(text)
    now = replace(
        bound,
        application_id=fitting.application_id,
        page_size=fitting.offsets_per_page,
        state_partitions=state_partitions(fitting),
        order=fitting.order_of_pages,
    )
    bound.require_same(now)


def _planned_partitions(store: ReadableCheckpoint) -> int | None:
    newest = store.last_batch("offsets")
    if newest is None:
        return None
    try:
        return store.planned(newest).state_partitions
    except BrokenLogError as error:
        raise CheckpointError(
            f"The plan of batch {newest} can't be read: {error}.",
            remedy="Run `checkback checkpoint verify`; see `checkback docs checkpoints`.",
            batch_id=newest,
        ) from error
