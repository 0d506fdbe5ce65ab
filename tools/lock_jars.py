"""Locks the jars that ivy.xml resolves to: ``python -m tools.lock_jars``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final, cast

from checkback.deploy.jars import (
    CONFS,
    LOCK_FILE,
    Conf,
    LockedJar,
    file_errors,
    only_one_process,
    run_ivy,
    scratch_folder,
)
from checkback.protocol.errors import CheckbackError
from checkback.streaming.spark.jars import jars_folder, sha256

BY_COORDINATES: Final = "[conf]/[organisation]/[module]/[revision]/[artifact]-[revision].[ext]"
"""Where Ivy puts jars."""


def renew_lock(lock: Path = LOCK_FILE) -> int:
    """Resolve ivy.xml again, write the jars' checksums to the lock, and return the number of jars.

    Raises:
        PrerequisiteError: no Java, no pyspark, no network or no room on the disk.
    """
    folder = jars_folder()
    with file_errors(folder), only_one_process(folder), scratch_folder(folder) as scratch:
        run_ivy(folder, scratch, CONFS, BY_COORDINATES)
        found = [_fetched_jar(jar, scratch) for jar in scratch.glob("*/*/*/*/*.jar")]
    found.sort(key=lambda jar: (jar.conf, jar.file))
    lock.write_text("".join(jar.line() for jar in found), "ascii")
    return len(found)


def _fetched_jar(jar: Path, scratch: Path) -> LockedJar:
    conf, group, artifact, version, file = jar.relative_to(scratch).parts
    return LockedJar(sha256(jar), cast("Conf", conf), file, group, artifact, version)


if __name__ == "__main__":
    try:
        print(f"{renew_lock()} jars are locked in {LOCK_FILE}.")
    except CheckbackError as error:
        sys.exit(f"checkback: {error}")
