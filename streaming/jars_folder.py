"""The folder of the jars of Spark and Kafka, and of the archive of their classes."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path


def jars_folder() -> Path:
    """Return the folder of all jars: CHECKBACK_JARS, else one inside the Python environment."""
    chosen = os.environ.get("CHECKBACK_JARS")
    return Path(chosen) if chosen else Path(sys.prefix) / "share" / "checkback" / "jars"


def sha256(path: Path) -> str:
    """Return a file's sha256 in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
