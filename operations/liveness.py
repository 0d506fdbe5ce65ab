"""Whether a pipeline is at work over a checkpoint, told by its traces there.

A pipeline with nothing to do still plans and commits a batch at every trigger, because timeouts
may fire in any of them; so a folder in which nothing moves for longer than a trigger belongs to one
that has ended, or to one within a very long batch. Who must be sure takes the session over as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from checkback.checkpoints.files import FolderFiles
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import CheckpointError

LOOK_S: Final = 0.5
BATCH_S: Final = 4.0
"""Longer than an idle batch takes on a busy machine."""
LONGEST_S: Final = 60.0


def require_stopped(
    files: FolderFiles, settings: Settings, pause: Callable[[float], None] = time.sleep
) -> None:
    """Refuse to touch a checkpoint over which a pipeline is at work.

    Args:
        files: the checkpoint's.
        settings: the pipeline's; its trigger interval says how long to look.
        pause: waits so many seconds.

    Raises:
        CheckpointError: something moved.
    """
    first = _batches(files)
    looks = int(min(LONGEST_S, BATCH_S + settings.trigger_interval_ms / 1_000) / LOOK_S)
    for _ in range(looks):
        pause(LOOK_S)
        if _batches(files) != first:
            raise CheckpointError(
                f"A pipeline is at work over {settings.checkpoint}: its batches go on.",
                remedy="Stop it first, with SIGTERM, and wait for its end.",
                checkpoint=settings.checkpoint,
            )


def _batches(files: FolderFiles) -> Mapping[str, int]:
    logs = ("offsets/", "commits/")
    return {name: size for name, size in files.sizes().items() if name.startswith(logs)}
