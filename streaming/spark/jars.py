"""Finds jars: in a folder beside Python, given by spark-submit, or made for one run."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path


def jars_folder() -> Path:
    """Return the folder of all jars: CHECKBACK_JARS, else one inside the Python environment."""
    chosen = os.environ.get("CHECKBACK_JARS")
    return Path(chosen) if chosen else Path(sys.prefix) / "share" / "checkback" / "jars"


def kept_file(prefix: str, suffix: str) -> Path | None:
    """Return a whole file that a start keeps in the folder, None if there is none.

    Its name has its own sha256, so a torn file is not taken. It has to belong to a trusted owner: a
    jar of another user could read the secrets of access control.
    """
    for path in sorted(jars_folder().glob(f"{prefix}*{suffix}")):
        if _is_whole_and_trusted(path, prefix, suffix):
            return path
    return None


def kept_name(path: Path, prefix: str, suffix: str) -> str:
    """Return the name under which a file is kept."""
    return f"{prefix}{sha256(path)}{suffix}"


def _is_whole_and_trusted(path: Path, prefix: str, suffix: str) -> bool:
    try:
        is_ours = path.stat().st_uid in trusted_owners()
        return is_ours and path.name == kept_name(path, prefix, suffix)
    except OSError:  # it is gone by now, no file, or not for this user to read
        return False


def trusted_owners() -> set[int]:
    """Return the users that this process trusts: its own, root, and the owner of its files."""
    return {os.geteuid(), 0, Path(__file__).stat().st_uid}


def sha256(path: Path) -> str:
    """Return a file's sha256 in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_submitted() -> bool:
    """Return whether spark-submit started this process, and with it the driver's JVM."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def temporary_folder(what: str) -> Path:
    """Make a temporary folder, and return its path; it is deleted when this process ends.

    Args:
        what: is in it; part of its name.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"checkback-{what}-"))
    atexit.register(partial(shutil.rmtree, folder, ignore_errors=True))
    return folder
