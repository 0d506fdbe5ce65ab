"""A checkpoint folder on any file system that Hadoop reaches: Spark's files and Checkback's own.

It needs a JVM and Hadoop's settings, but no Spark session: starting one takes seconds, too long for
reading a few small files. Checkback's own files are small texts in the folder ``checkback``.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError

from checkback.checkpoints.files import (
    OUR_FOLDER,
    ReadableCheckpoint,
    UnreadableFileError,
)
from checkback.checkpoints.spark_internals import hadoop_configuration, jvm_of, stream_metadata
from checkback.protocol.errors import CheckpointError, PrerequisiteError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONDITIONAL_CREATE: Final = "fs.option.create.conditional.overwrite"
"""Hadoop's option to create an object only if none exists: S3A has it since Hadoop 3.4.2."""


@dataclass(frozen=True, slots=True)
class CheckpointStore(ReadableCheckpoint):
    """A checkpoint folder; file names are relative to it, with slashes."""

    jvm: Any
    configuration: Any
    path: str

    @classmethod
    def of(cls, spark: SparkSession, path: str) -> CheckpointStore:
        """Return a checkpoint as a running session reaches it."""
        return cls(jvm_of(spark), hadoop_configuration(spark), path)

    def sizes(self) -> Mapping[str, int]:
        """Return every file below the folder with its size in bytes; none where it is missing."""
        root = self._path()
        start = len(self._file_system().makeQualified(root).toString().rstrip("/")) + 1
        # Not listFiles: on a local disk it runs `ls` for every file, and fails when one has gone.
        found, folders = {}, [root]
        while folders:
            for status in self._listed(folders.pop()):
                if status.isDirectory():
                    folders.append(status.getPath())
                else:
                    found[str(status.getPath().toString())[start:]] = int(status.getLen())
        return found

    def is_empty(self) -> bool:
        """Return whether the folder is empty or missing."""
        return not self._listed(self._path())

    def is_local(self) -> bool:
        """Return whether the folder is on a file system of this machine, or on one mounted here."""
        return self.scheme == "file"

    @property
    def scheme(self) -> str:
        """The scheme of the folder's URI, the part before the colon: the kind of file system."""
        return str(self._file_system().getScheme())

    def read(self, name: str) -> bytes:
        """Return a file's content.

        Raises:
            UnreadableFileError: it can't be read.
        """
        try:
            with closing(self._file_system().open(self._path(name))) as stream:
                return bytes(self.jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        except Py4JJavaError as error:
            raise UnreadableFileError(str(error.java_exception.getMessage())) from error

    def replace(self, name: str, text: str) -> None:
        """Write a file; readers see the old content or the new, never a part of it."""
        with self._refusals():
            if self._is_conditional(self._path(name)):
                # The object appears when it is closed. A rename would be a copy, before which the
                # old one is deleted: a crash between would lose both.
                self._fill(self._file_system().create(self._path(name), True), text)
                return
            draft = self._written_draft(name, text)
            options = self.jvm.org.apache.hadoop.fs.Options.Rename
            self._rename(draft, self._path(name), options.OVERWRITE)

    def delete(self, name: str) -> None:
        """Delete a file or folder; do nothing if it does not exist."""
        self._file_system().delete(self._path(name), True)

    def delete_all(self) -> None:
        """Delete the folder and everything in it; do nothing if it does not exist."""
        self._file_system().delete(self._path(), True)

    def move_aside(self) -> str:
        """Rename the folder and return the new name; its content is kept.

        Raises:
            CheckpointError: the folder can't be renamed.
        """
        moved = f"{self.path.rstrip('/')}.replaced-{int(time.time())}"
        if not self._file_system().rename(self._path(), self.jvm.org.apache.hadoop.fs.Path(moved)):
            raise CheckpointError(
                f"{self.path} can't be renamed to {moved}.",
                remedy="Move it away yourself, or name another checkpoint to rebuild into.",
                checkpoint=self.path,
            )
        return moved

    def exists(self, name: str) -> bool:
        """Return whether there is a file of that name."""
        return bool(self._file_system().exists(self._path(name)))

    def replace_own(self, name: str, text: str) -> None:
        """Write one of Checkback's own files; like `replace`."""
        self.replace(f"{OUR_FOLDER}/{name}", text)

    def create(self, name: str, text: str) -> bool:
        """Create a file unless it exists; readers see the whole file or none.

        If two processes create the same file at once, one gets False. On a local file system a hard
        link decides this; on one with conditional writes, the closing of the object; on any other,
        a rename that does not replace, which is as reliable as Spark's own offset log there.

        Returns:
            False if the file existed; it is left as it was.
        """
        path = self._path(name)
        with self._refusals():
            if self._file_system().exists(path):
                return False
            try:
                self._create(name, text)
            except (Py4JJavaError, FileExistsError):
                if not self._file_system().exists(path):
                    raise
                return False
        return True

    def create_own(self, name: str, text: str) -> bool:
        """Create one of Checkback's own files unless it exists; like `create`."""
        return self.create(f"{OUR_FOLDER}/{name}", text)

    def delete_own(self, name: str) -> None:
        """Delete one of Checkback's own files; do nothing if it does not exist."""
        self.delete(f"{OUR_FOLDER}/{name}")

    def own_numbers(self, folder: str) -> list[int]:
        """Return the numbers of Checkback's own files ``<number>.json`` in a folder, ascending."""
        names = [
            str(one.getPath().getName()) for one in self._listed(self._path(OUR_FOLDER, folder))
        ]
        stems = [name.removesuffix(".json") for name in names if name.endswith(".json")]
        return sorted(int(stem) for stem in stems if stem.isdigit())

    def make_query_id(self) -> str:
        """Return the query id; give one, as Spark would, to a checkpoint that never ran.

        The id is needed before the query starts: everything that fences has it in its name.

        Raises:
            CheckpointError: the checkpoint can't be written.
        """
        made = stream_metadata(self.jvm)(str(uuid.uuid4()))
        # If two processes write at once, one fails and uses the other's id.
        with suppress(Py4JJavaError):
            stream_metadata(self.jvm).write(made, self._path("metadata"), self.configuration)
        found = self.query_id()
        if found is None:
            raise CheckpointError(
                f"{self.path} can't be written.",
                remedy="Check its permissions and the free space.",
                checkpoint=self.path,
            )
        return found

    def batch_times_ms(self, log: str) -> dict[int, int]:
        """Return by batch the time when its entry in ``offsets`` or ``commits`` was written."""
        return {
            int(status.getPath().getName()): int(status.getModificationTime())
            for status in self._listed(self._path(log))
            if status.getPath().getName().isdigit()
        }

    def _listed(self, folder: Any) -> list[Any]:
        file_system = self._file_system()
        try:
            return list(file_system.listStatus(folder))
        except Py4JJavaError:
            if file_system.exists(folder):
                raise
            return []  # never created, or deleted meanwhile by a running pipeline

    def _create(self, name: str, text: str) -> None:
        file_system, path = self._file_system(), self._path(name)
        if self._is_conditional(path):
            builder = file_system.createFile(path).recursive()
            self._fill(builder.must(CONDITIONAL_CREATE, True).build(), text)
            return
        draft = self._written_draft(name, text, f"-{uuid.uuid4()}")
        try:
            if not (self.is_local() and _is_linked(draft, path)):
                self._rename(draft, path, self.jvm.org.apache.hadoop.fs.Options.Rename.NONE)
        finally:
            file_system.delete(draft, False)

    def _is_conditional(self, path: Any) -> bool:
        return bool(self._file_system().hasPathCapability(path, CONDITIONAL_CREATE))

    def _written_draft(self, name: str, text: str, mark: str = "") -> Any:
        folder, _, file = name.rpartition("/")
        draft = self._path(folder, f".{file}.draft{mark}")
        self._fill(self._file_system().create(draft, True), text)
        return draft

    def _fill(self, stream: Any, text: str) -> None:
        with closing(stream):
            stream.write(bytearray(text.encode()))
            stream.hsync()

    def _rename(self, source: Any, target: Any, how: Any) -> None:
        context = self.jvm.org.apache.hadoop.fs.FileContext.getFileContext(
            target.toUri(), self.configuration
        )
        # Java's varargs need an array.
        options = self.jvm.java.lang.reflect.Array.newInstance(how.getDeclaringClass(), 1)
        options[0] = how
        context.rename(source, target, options)

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as error:
            raise PrerequisiteError(
                f"{self.path} can't be written: {error.java_exception.getMessage()}.",
                remedy="Free some space, or check the path and its permissions.",
                checkpoint=self.path,
            ) from error

    def _path(self, *names: str) -> Any:
        return self.jvm.org.apache.hadoop.fs.Path("/".join((self.path.rstrip("/"), *names)))

    def _file_system(self) -> Any:
        return self._path().getFileSystem(self.configuration)


def _is_linked(draft: Any, target: Any) -> bool:
    """Link a local draft to its final name; return False if the file system has no links.

    Raises:
        FileExistsError: the name is taken.
    """
    try:
        os.link(str(draft.toUri().getPath()), str(target.toUri().getPath()))
    except FileExistsError:
        raise
    except OSError:
        return False
    return True
