"""Reads certificates and keys on the driver's disk; executors get their text, not their names."""

from __future__ import annotations

from pathlib import Path

from checkback.protocol.errors import ConfigurationError


def pem_text(name: str) -> str:
    """Return the text of a certificate or key.

    Raises:
        ConfigurationError: the file can't be read.
    """
    try:
        return Path(name).read_text("ascii")
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"The file {name} can't be read as PEM.",
            remedy="Check its name, format and permissions.",
        ) from error
