"""The archive of a Spark driver's classes, with which a start takes a quarter less time.

A driver loads some 15,000 classes, and reads, parses and verifies each from its jar. The JVM can
map them from a file instead (dynamic class data sharing, JEP 350). It checks that the archive was
made by the same JVM and for the same jars, and ignores it otherwise.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from checkback.streaming.jars_folder import jars_folder, kept_file, kept_name

JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
"""The Spark setting that holds the options."""
DUMP_OPTION: Final = "-XX:ArchiveClassesAtExit="
_PREFIX: Final = "driver-"
_SUFFIX: Final = ".jsa"
_MAP_OPTION: Final = "-XX:SharedArchiveFile="
_SILENT: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Keeps the JVM from logging about an archive that it ignores (of another Java, for example)."""


def archive_option() -> str | None:
    """Return the JVM options that map the archive, None if there is none.

    The JVM also maps a damaged archive, and dies of SIGBUS on a truncated one (17.0.15).
    """
    path = kept_file(_PREFIX, _SUFFIX)
    return None if path is None else f'"{_MAP_OPTION}{path}" {_SILENT}'


def with_archive(java_options: str) -> str:
    """Return a driver's JVM options, with those that map the archive unless they name another."""
    names_another = any(one in java_options for one in (_MAP_OPTION, DUMP_OPTION))
    option = None if names_another else archive_option()
    return java_options if option is None else f"{java_options} {option}".strip()


def keep_archive(dumped: Path) -> Path:
    """Move a new archive to where starts look for it, and delete the older ones.

    Args:
        dumped: the new archive; on the disk of the jars' folder, so that a rename can move it.
    """
    kept = jars_folder() / kept_name(dumped, _PREFIX, _SUFFIX)
    older = [path for path in jars_folder().glob(f"{_PREFIX}*{_SUFFIX}") if path != kept]
    dumped.replace(kept)
    for path in older:  # a JVM that has mapped one keeps it
        path.unlink(missing_ok=True)
    return kept
