"""Ports on the loopback address."""

from __future__ import annotations

import random
import socket
from typing import Final

from checkback.protocol.errors import PrerequisiteError

LOOPBACK: Final = "127.0.0.1"

PORT_RANGE: Final = range(20_000, 32_000)
"""Below what systems give to outgoing connections (Linux: 32768): there, a client that tries again
and again to reach a stopped broker is sooner or later connected to itself, and holds the port."""


def free_ports(count: int) -> list[int]:
    """Return that many different ports that nothing listens on now.

    Raises:
        PrerequisiteError: there are too few.
    """
    # A system-seeded generator: two test runs that start together must not try in the same order.
    candidates = random.SystemRandom().sample(PORT_RANGE, len(PORT_RANGE))
    found: list[int] = []
    for port in candidates:
        if len(found) == count:
            return found
        if is_free(port):
            found.append(port)
    raise PrerequisiteError(
        f"No {count} ports are free between {PORT_RANGE.start} and {PORT_RANGE.stop}.",
        remedy="Stop some servers or name a port.",
    )


def is_free(port: int) -> bool:
    """Tell whether a server could listen on that port of the loopback address now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do, or a broker's own closed connections would block its restart for a minute.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def require_free(port: int) -> None:
    """Check that a server can listen on that port of the loopback address.

    Raises:
        PrerequisiteError: something else listens there, or this user may not.
    """
    if not is_free(port):
        raise PrerequisiteError(
            f"Port {port} on {LOOPBACK} is taken.",
            remedy="Stop what listens there or choose another port with --port.",
            port=port,
        )
