"""The files of a checkpoint that a rebuild writes, moves and deletes, through Hadoop's FileSystem.

A folder with ``checkback/rebuilding.json`` is a rebuild that was not finished: it holds nothing
that the topics do not tell, and no pipeline starts over it, because its identity is written last.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

from checkback.checkpoints.files import HadoopFiles, files_of
from checkback.checkpoints.folder import OUR_FOLDER, CheckpointFolder
from checkback.checkpoints.identity import FILE as IDENTITY
from checkback.protocol.errors import CheckpointError

UNFINISHED: Final = "rebuilding.json"
ROWS: Final = f"{OUR_FOLDER}/restored"
FIRST_PLAN: Final = "offsets/0"


@dataclass(frozen=True, slots=True)
class RebuildFolder:
    """A checkpoint folder that is being rebuilt.

    Args:
        spark: the session whose Hadoop settings reach it.
        path: folder or object-store path.
    """

    spark: SparkSession
    path: str

    @property
    def checkpoint(self) -> CheckpointFolder:
        """Our own small files in it."""
        return CheckpointFolder(self.spark, self.path)

    @property
    def files(self) -> HadoopFiles:
        """All files in it."""
        return files_of(self.spark, self.path)

    @property
    def rows(self) -> str:
        """Where the restored rows lie until they are state."""
        return f"{self.path.rstrip('/')}/{ROWS}"

    @property
    def is_unfinished(self) -> bool:
        """Tell whether an earlier rebuild was not finished: the identity is what ends one."""
        ours = self.checkpoint
        return ours.read(UNFINISHED) is not None and ours.read(IDENTITY) is None

    def begin(self, now_ms: int) -> None:
        """Make the folder one that is being rebuilt."""
        self.checkpoint.write(UNFINISHED, json.dumps({"began_at_ms": now_ms}))

    def finish(self) -> None:
        """Make it a checkpoint."""
        self.delete(f"{OUR_FOLDER}/{UNFINISHED}")

    def move_aside(self) -> str:
        """Give the folder another name and return that; what it holds stays for whoever wants it.

        Raises:
            CheckpointError: it can't be renamed.
        """
        moved = f"{self.path.rstrip('/')}.replaced-{int(time.time())}"
        source, target = self._path(), self.files.jvm.org.apache.hadoop.fs.Path(moved)
        if not source.getFileSystem(self.files.configuration).rename(source, target):
            raise CheckpointError(
                f"{self.path} can't be moved to {moved}.",
                remedy="Move it away yourself, or give another checkpoint to rebuild into.",
                checkpoint=self.path,
            )
        return moved

    def delete(self, name: str = "") -> None:
        """Delete a file or folder in it, or all of it; nothing happens where there is none."""
        path = self._path(*([name] if name else []))
        path.getFileSystem(self.files.configuration).delete(path, True)

    def read(self, name: str) -> str:
        """Return a file's text."""
        return self.files.read(name).decode()

    def replace(self, name: str, text: str) -> None:
        """Write a file of Spark's anew; only before the checkpoint is one."""
        path = self._path(name)
        stream = path.getFileSystem(self.files.configuration).create(path, True)
        try:
            stream.write(bytearray(text.encode()))
            stream.hsync()
        finally:
            stream.close()

    def _path(self, *names: str) -> Any:
        return self.files.jvm.org.apache.hadoop.fs.Path("/".join((self.path.rstrip("/"), *names)))
