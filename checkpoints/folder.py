"""Small text files beside Spark's own in the checkpoint folder, wherever that is.

Read and written through Hadoop's FileSystem, as Spark does, so that an object store works too.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from checkback.checkpoints.logs import BrokenLogError, parse_offsets
from checkback.protocol.errors import CheckpointError, PrerequisiteError

OUR_FOLDER: Final = "checkback"


@dataclass(frozen=True, slots=True)
class CheckpointFolder:
    """A checkpoint folder.

    Args:
        spark: the session whose Hadoop settings reach it.
        path: folder or object-store path.
    """

    spark: SparkSession
    path: str

    def read(self, name: str) -> str | None:
        """Return one of our files as text, None where it does not exist."""
        path = self._path(OUR_FOLDER, name)
        file_system = self._file_system(path)
        if not file_system.exists(path):
            return None
        stream = file_system.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Replace one of our files; readers see the old or the new one, never half of it.

        Raises:
            PrerequisiteError: no room, no right, or nothing there that could be written to.
        """
        try:
            self._replace(name, text)
        except Py4JJavaError as error:
            raise PrerequisiteError(
                f"{self.path} can't be written: {error.java_exception.getMessage()}.",
                remedy="Make room, or check the path and the rights on it.",
                checkpoint=self.path,
            ) from error

    def _replace(self, name: str, text: str) -> None:
        path, draft = self._path(OUR_FOLDER, name), self._path(OUR_FOLDER, f".{name}.draft")
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(
            path.toUri(), self._configuration
        )
        stream = self._file_system(draft).create(draft, True)
        try:
            stream.write(bytearray(text.encode()))
            stream.hsync()
        finally:
            stream.close()
        overwrite = self._jvm.org.apache.hadoop.fs.Options.Rename.OVERWRITE
        gateway: Any = self.spark.sparkContext._gateway  # noqa: SLF001 - Java's varargs need it
        options = gateway.new_array(self._jvm.org.apache.hadoop.fs.Options.Rename, 1)
        options[0] = overwrite
        context.rename(draft, path, options)

    def is_local(self) -> bool:
        """Tell whether it lies in a file system of this machine, or one mounted here."""
        return str(self._file_system(self._path()).getScheme()) == "file"

    def last_batch(self, log: str) -> int | None:
        """Return the highest batch in Spark's ``offsets`` or ``commits`` log, None when empty."""
        path = self._path(log)
        file_system = self._file_system(path)
        if not file_system.exists(path):
            return None
        numbers = [
            int(status.getPath().getName())
            for status in file_system.listStatus(path)
            if status.getPath().getName().isdigit()
        ]
        return max(numbers, default=None)

    def query_id(self) -> str | None:
        """Return Spark's id of the query, None for a checkpoint that never ran."""
        path = self._path("metadata")
        file_system = self._file_system(path)
        if not file_system.exists(path):
            return None
        metadata = self._jvm.org.apache.spark.sql.execution.streaming.runtime.StreamMetadata
        found = metadata.read(path, self._configuration)
        return str(found.get().id()) if found.isDefined() else None

    def make_query_id(self) -> str:
        """Give a checkpoint that never ran the id that Spark would give it; return what it has.

        The id is needed before the query starts: it is in the name of everything that fences.
        """
        metadata = self._jvm.org.apache.spark.sql.execution.streaming.runtime.StreamMetadata
        # Of two that write at once one is refused, and takes the other's.
        with suppress(Py4JJavaError):
            metadata.write(metadata(str(uuid.uuid4())), self._path("metadata"), self._configuration)
        found = self.query_id()
        if found is None:
            raise CheckpointError(
                f"{self.path} can't be written.",
                remedy="Check the rights on it and the room that is left.",
                checkpoint=self.path,
            )
        return found

    def batch_times_ms(self, log: str) -> dict[int, int]:
        """Return by batch when its entry in ``offsets`` or ``commits`` was written."""
        path = self._path(log)
        file_system = self._file_system(path)
        if not file_system.exists(path):
            return {}
        return {
            int(status.getPath().getName()): int(status.getModificationTime())
            for status in file_system.listStatus(path)
            if status.getPath().getName().isdigit()
        }

    def planned_at_ms(self, batch: int) -> int:
        """Return the timestamp that Spark planned a batch with: the time all its rules go by."""
        path = self._path("offsets", str(batch))
        stream = self._file_system(path).open(path)
        try:
            text = str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()
        try:
            return parse_offsets(text.encode()).timestamp_ms
        except BrokenLogError as error:
            raise CheckpointError(
                f"The plan of batch {batch} can't be read: offsets/{batch} is damaged.",
                remedy="Run `checkback checkpoint rebuild`; see docs/operating/recovering.md.",
                batch_id=batch,
            ) from error

    def is_empty(self) -> bool:
        """Tell whether nothing is there yet."""
        path = self._path()
        file_system = self._file_system(path)
        return not file_system.exists(path) or not list(file_system.listStatus(path))

    @property
    def _jvm(self) -> Any:
        return self.spark.sparkContext._jvm  # noqa: SLF001 - PySpark has no public way to Hadoop

    @property
    def _configuration(self) -> Any:
        return self.spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001 - as above

    def _path(self, *names: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path("/".join((self.path.rstrip("/"), *names)))

    def _file_system(self, path: Any) -> Any:
        return path.getFileSystem(self._configuration)
