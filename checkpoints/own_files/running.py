"""Tells whether a pipeline runs over a checkpoint on this machine's disks, and where it answers.

A pipeline holds a lock on a file in the checkpoint, and the operating system lets go of it however
the process ends. Pipelines share the lock: a younger one may start before the older one has ended.
The file holds the address of the endpoint that the youngest serves its metrics at.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from checkback.checkpoints.files import OUR_FOLDER
from checkback.checkpoints.local_files import local_folder
from checkback.protocol.configuration import Settings

FILE: Final = "running.lock"


@contextmanager
def told_as_running(folder: Path | None, url: str | None = None) -> Iterator[None]:
    """Hold the lock; do nothing where there is no folder, or where the disk knows no locks.

    Args:
        folder: the checkpoint's, None if it is not on this machine's disks.
        url: of the pipeline's endpoint, None if it has none.
    """
    if folder is None:
        yield
        return
    try:
        file = (folder / OUR_FOLDER / FILE).open("ab")
    except OSError:
        yield
        return
    with file:
        _lock(file.fileno(), fcntl.LOCK_SH)
        with suppress(OSError):  # a full disk
            file.truncate(0)
            file.write((url or "").encode())
            file.flush()
        yield


def is_running(folder: Path | None) -> bool | None:
    """Return whether a pipeline runs over the checkpoint; None if unknown."""
    if folder is None:
        return None
    try:
        with (folder / OUR_FOLDER / FILE).open("rb") as file:
            return not _lock(file.fileno(), fcntl.LOCK_EX)
    except FileNotFoundError:
        return False
    except OSError:
        return None


def is_pipeline_running(settings: Settings) -> bool | None:
    """Return whether a pipeline runs over the checkpoint of these settings, as is_running does."""
    return is_running(local_folder(settings.checkpoint, settings.spark))


def announced_url(settings: Settings) -> str:
    """Return where the pipeline that runs over the checkpoint has its endpoint, "" if unknown."""
    folder = local_folder(settings.checkpoint, settings.spark) if settings.checkpoint else None
    if folder is None or is_running(folder) is False:
        return ""
    try:
        return (folder / OUR_FOLDER / FILE).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _lock(number: int, kind: int) -> bool:
    try:
        fcntl.flock(number, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
