"""All files of a checkpoint folder, Spark's and ours, wherever Hadoop's FileSystem reaches.

Needs a JVM and Hadoop's settings, but no session: starting Spark's SQL takes seconds that a look
into small files is not worth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession


class UnreadableFileError(Exception):
    """A file that exists can't be read: its checksum is wrong, or the disk says so."""


class FolderFiles(Protocol):
    """What can be asked of a checkpoint folder; names are relative to it, with slashes."""

    def sizes(self) -> Mapping[str, int]:
        """Return every file below the folder with its size in bytes; none where it is missing."""
        ...

    def read(self, name: str) -> bytes:
        """Return a file's content.

        Raises:
            UnreadableFileError: it can't be read.
        """
        ...

    def read_end(self, name: str, length: int) -> bytes:
        """Return the last bytes of a file, all of it where it is shorter.

        Raises:
            UnreadableFileError: it can't be read.
        """
        ...


@dataclass(frozen=True, slots=True)
class HadoopFiles:
    """A folder as Hadoop sees it.

    Args:
        jvm: py4j's view of the JVM.
        configuration: Hadoop's Configuration.
        path: folder or object-store path.
    """

    jvm: Any
    configuration: Any
    path: str

    def sizes(self) -> Mapping[str, int]:
        """Return every file below the folder with its size in bytes; none where it is missing."""
        root = self._path()
        file_system = root.getFileSystem(self.configuration)
        if not file_system.exists(root):
            return {}
        start = len(file_system.makeQualified(root).toString().rstrip("/")) + 1
        # Not listFiles: on a local disk it runs `ls` for every file, and fails when one has gone.
        found, folders = {}, [root]
        while folders:
            for status in self._listed(file_system, folders.pop()):
                if status.isDirectory():
                    folders.append(status.getPath())
                else:
                    found[str(status.getPath().toString())[start:]] = int(status.getLen())
        return found

    def _listed(self, file_system: Any, folder: Any) -> list[Any]:
        try:
            return list(file_system.listStatus(folder))
        except Py4JJavaError:
            if file_system.exists(folder):
                raise
            return []  # gone meanwhile: the pipeline is at work

    def read(self, name: str) -> bytes:
        """Return a file's content."""
        return self._read(name, None)

    def read_end(self, name: str, length: int) -> bytes:
        """Return the last bytes of a file."""
        return self._read(name, length)

    def delete(self, name: str) -> None:
        """Delete a file; one that is not there is no error."""
        path = self._path(name)
        path.getFileSystem(self.configuration).delete(path, False)

    def _read(self, name: str, last: int | None) -> bytes:
        path = self._path(name)
        file_system = path.getFileSystem(self.configuration)
        try:
            stream = file_system.open(path)
            try:
                if last is not None:
                    stream.seek(max(0, file_system.getFileStatus(path).getLen() - last))
                return bytes(self.jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()
        except Py4JJavaError as error:
            raise UnreadableFileError(str(error.java_exception.getMessage())) from error

    def _path(self, *names: str) -> Any:
        return self.jvm.org.apache.hadoop.fs.Path("/".join((self.path.rstrip("/"), *names)))


def files_of(spark: SparkSession, path: str) -> HadoopFiles:
    """Return a folder's files as a running session reaches them."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - PySpark has no public way to Hadoop
    java: Any = spark._jsparkSession  # noqa: SLF001 - as above
    return HadoopFiles(jvm, java.sessionState().newHadoopConf(), path)
