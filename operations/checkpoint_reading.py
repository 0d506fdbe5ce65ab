"""Opening a checkpoint to look into it, beside the pipeline that writes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from checkback.checkpoints.folder import CheckpointFolder
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import NotFoundError
from checkback.streaming.session import start_session


@contextmanager
def open_checkpoint(settings: Settings) -> Iterator[CheckpointFolder]:
    """Give the checkpoint in the settings, read by a small Spark on this machine.

    The pipeline's `spark.*` settings hold, because what reaches an object store is among them; its
    master does not.

    Raises:
        NotFoundError: no pipeline has begun there yet.
    """
    spark_here = {"spark.ui.enabled": "false", "spark.driver.memory": "1g", **settings.spark}
    spark = start_session(replace(settings, master="local[2]", spark=spark_here), [])
    try:
        folder = CheckpointFolder(spark, settings.checkpoint)
        if folder.query_id() is None:
            raise NotFoundError(
                f"{settings.checkpoint} is not the checkpoint of a pipeline.",
                remedy="Check the setting; `checkback run` makes it.",
                checkpoint=settings.checkpoint,
            )
        yield folder
    finally:
        spark.stop()
