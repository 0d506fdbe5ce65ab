"""Finds free ports on the loopback address."""

from __future__ import annotations

import random
import socket
from typing import Final

from checkback.protocol.errors import PrerequisiteError

LOOPBACK: Final = "127.0.0.1"

PORT_RANGE: Final = range(20_000, 32_000)
"""Below the range for outgoing connections (on Linux from 32768). In that range a client that keeps
retrying to reach a stopped broker sooner or later connects to itself and holds the port."""


def free_ports(count: int) -> list[int]:
    """Return this many different ports on which nothing listens now.

    Raises:
        PrerequisiteError: there are too few free ports.
    """
    # Seeded by the system: two test runs that start together must not try ports in the same order.
    candidates = random.SystemRandom().sample(PORT_RANGE, len(PORT_RANGE))
    found: list[int] = []
    for port in candidates:
        if len(found) == count:
            return found
        if is_free(port):
            found.append(port)
    raise PrerequisiteError(
        f"No {count} ports are free between {PORT_RANGE.start} and {PORT_RANGE.stop}.",
        remedy="Stop some servers, or name a port.",
    )


def is_free(port: int) -> bool:
    """Return whether a server could listen on this port of the loopback address now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Servers set this, too. Without it a broker's own closed connections would count for a
        # minute.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def require_free(port: int) -> None:
    """Check that a server can listen on this port of the loopback address.

    Raises:
        PrerequisiteError: another program listens there, or this user may not.
    """
    if not is_free(port):
        raise PrerequisiteError(
            f"Port {port} on {LOOPBACK} is taken.",
            remedy="Stop the program that listens there, or choose another port with --port.",
            port=port,
        )
