"""Folders for what a driver makes and its executors fetch from it, until it ends."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import partial
from pathlib import Path


def temporary_folder(what: str) -> Path:
    """Make a temporary folder, and return its path; it is deleted when this process ends.

    Args:
        what: is in it; part of its name.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"checkback-{what}-"))
    atexit.register(partial(shutil.rmtree, folder, ignore_errors=True))
    return folder
