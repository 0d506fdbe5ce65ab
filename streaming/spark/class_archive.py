"""Archives of the classes of a Spark driver and of an embedded broker: their starts take less time.

A driver loads some 15,000 classes, and reads, parses and verifies each from its jar. The JVM can
map them from a file instead (dynamic class data sharing, JEP 350). It checks that the archive was
made by the same JVM and for the same jars, and ignores it otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from checkback.streaming.spark.jars import jars_folder, kept_file, kept_name

JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
"""The Spark setting that holds the options."""
DUMP_OPTION: Final = "-XX:ArchiveClassesAtExit="
_SUFFIX: Final = ".jsa"
_MAP_OPTION: Final = "-XX:SharedArchiveFile="
_SILENT: Final = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
"""Keeps the JVM from logging about an archive that it ignores (of another Java, for example)."""


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive of one kind of process, beside the jars.

    Args:
        prefix: how the names of its files begin.
    """

    prefix: str

    def options(self, beside: str = "") -> list[str]:
        """Return the JVM options that map the archive, none if there is none.

        Args:
            beside: the JVM's other options; if they name an archive, that one is used.

        The JVM also maps a damaged archive, and dies of SIGBUS on a truncated one (17.0.15).
        """
        names_another = any(one in beside for one in (_MAP_OPTION, DUMP_OPTION))
        path = None if names_another else kept_file(self.prefix, _SUFFIX)
        return [] if path is None else [f"{_MAP_OPTION}{path}", *_SILENT]

    def keep(self, dumped: Path) -> Path:
        """Move a new archive to where starts look for it, and delete the older ones.

        Args:
            dumped: the new archive; on the disk of the jars' folder, so that a rename can move it.
        """
        kept = jars_folder() / kept_name(dumped, self.prefix, _SUFFIX)
        older = [path for path in jars_folder().glob(f"{self.prefix}*{_SUFFIX}") if path != kept]
        dumped.replace(kept)
        for path in older:  # a JVM that has mapped one keeps it
            path.unlink(missing_ok=True)
        return kept


DRIVER: Final = ClassArchive("driver-")
BROKER: Final = ClassArchive("broker-")


def with_archive(java_options: str) -> str:
    """Return a driver's JVM options, with those that map the archive unless they name another."""
    options = DRIVER.options(java_options)
    if not options:
        return java_options
    mapping, *silent = options
    return " ".join([java_options, f'"{mapping}"', *silent]).strip()
