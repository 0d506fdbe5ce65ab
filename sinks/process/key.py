"""The key with which a task and its sink process authenticate; they exchange pickles.

It lies beside the process's socket, in a file that only its user can read.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

KEY_BYTES: Final = 32


def key_file(address: Path) -> Path:
    """Return the file with the key of the process that listens at an address."""
    return address.with_suffix(".key")


def write_key(address: Path) -> None:
    """Make a new key.

    Raises:
        OSError: another user's file is in its place.
    """
    path = key_file(address)
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(secrets.token_bytes(KEY_BYTES))


def read_key(address: Path) -> bytes:
    """Return the key."""
    with os.fdopen(os.open(key_file(address), os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        return file.read()
