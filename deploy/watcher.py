"""Ends a process when its parent process has ended, for whatever reason.

Runs as a script with only the standard library, so that it starts at once: ``python watcher.py
<parent pid> <child pid>``. It polls the parent's id. A pipe would stay open in every process that
the parent forked, and PR_SET_PDEATHSIG watches the parent's thread, not its process.
"""

from __future__ import annotations

import os
import signal
import sys
import time

POLL_INTERVAL_S = 0.25
STOP_TIMEOUT_S = 20.0


def watch(parent: int, child: int) -> None:
    """Wait for the parent's end, then end the child with SIGTERM, and later with SIGKILL."""
    while os.getppid() == parent:
        time.sleep(POLL_INTERVAL_S)
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(child, number)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while time.monotonic() < deadline and is_alive(child):
            time.sleep(POLL_INTERVAL_S)


def is_alive(pid: int) -> bool:
    """Return whether a process with this id exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


if __name__ == "__main__":
    watch(int(sys.argv[1]), int(sys.argv[2]))
