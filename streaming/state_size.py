"""How the state of a run is cut: as its checkpoint is, of which that can't be changed."""

from __future__ import annotations

from dataclasses import replace

from checkback.checkpoints.files import UnreadableFileError, files_of
from checkback.checkpoints.folder import CheckpointFolder
from checkback.checkpoints.identity import FILE, CheckpointIdentity
from checkback.checkpoints.logs import SHUFFLE_PARTITIONS, BrokenLogError, parse_offsets
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import CheckpointError


def fit_to_checkpoint(settings: Settings, folder: CheckpointFolder) -> Settings:
    """Return the settings with the checkpoint's page size and state partitions, if nobody set them.

    What was set is kept, and refused where the checkpoint is bound if it is not the same.

    Raises:
        CheckpointError: a repartition was left half done, or the checkpoint is damaged.
    """
    text = folder.read(FILE)
    if text is None:
        return settings
    identity = CheckpointIdentity.from_json(text)
    bound = identity.state_partitions
    planned = _planned_partitions(folder)
    if planned is not None and planned != bound:
        raise CheckpointError(
            f"The repartition of {settings.checkpoint} from {bound} to {planned} state partitions "
            "was left half done.",
            remedy=f"Run `checkback checkpoint repartition {planned} --yes`, which ends it.",
            before=bound,
            after=planned,
        )
    if settings.page_size is None:
        settings = replace(settings, page_size=identity.page_size)
    if settings.state_partitions is not None:
        return settings
    folder.spark.conf.set(SHUFFLE_PARTITIONS, str(bound))
    return replace(settings, state_partitions=bound)


def _planned_partitions(folder: CheckpointFolder) -> int | None:
    newest = folder.last_batch("offsets")
    if newest is None:
        return None
    files = files_of(folder.spark, folder.path)
    try:
        return parse_offsets(files.read(f"offsets/{newest}")).state_partitions
    except (BrokenLogError, UnreadableFileError) as error:
        raise CheckpointError(
            f"The plan of batch {newest} can't be read: {error}.",
            remedy="Run `checkback checkpoint verify`; see docs/operating/checkpoints.md.",
            batch_id=newest,
        ) from error
