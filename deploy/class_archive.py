"""The archive of the classes that a Spark driver loads: with it, a start takes a quarter less time.

A driver loads some 15,000 classes, and reads, parses and verifies each from its jar. The JVM can
map them from a file instead (dynamic class data sharing, JEP 350). It checks by itself that the
archive belongs to this very JVM and to these jars, and does without it otherwise.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from checkback.deploy.jars import jars_folder, sha256

JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
"""The Spark setting that the options stand in."""
DUMP_OPTION: Final = "-XX:ArchiveClassesAtExit="
_MAP_OPTION: Final = "-XX:SharedArchiveFile="
_SILENT: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""What it says of an archive that does not fit (another Java, say) is no news to anybody."""


def archive_option() -> str | None:
    """Return the JVM's options that map the archive, None where there is none.

    The file's sha256 stands in its name: the JVM maps what is damaged, too, and dies of SIGBUS on
    one that was cut short (17.0.15).
    """
    for path in sorted(jars_folder().glob("driver-*.jsa")):
        if path.name == _name(path):
            return f'"{_MAP_OPTION}{path}" {_SILENT}'
    return None


def with_archive(java_options: str) -> str:
    """Return the JVM options of a driver with those that map the archive, unless they name one."""
    option = None if "Archive" in java_options else archive_option()
    return java_options if option is None else f"{java_options} {option}".strip()


def keep_archive(dumped: Path) -> Path:
    """Put an archive that a JVM has dumped where starts look for it, in place of an older one.

    Args:
        dumped: on the disk of the jars' folder, so that it comes into place as a whole.
    """
    kept = jars_folder() / _name(dumped)
    older = [path for path in jars_folder().glob("driver-*.jsa") if path != kept]
    dumped.replace(kept)
    for path in older:  # a JVM that has one mapped keeps it
        path.unlink(missing_ok=True)
    return kept


def _name(archive: Path) -> str:
    return f"driver-{sha256(archive)}.jsa"
