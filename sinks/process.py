"""The sink's own process, which outlives Spark's tasks.

Spark hands its Python workers out in turn, so a state partition's next task runs in another worker
than its last. A producer kept in a worker was therefore superseded in nearly every batch, and a new
one costs some 55 ms and three connections. The tasks instead ask this process, of which an executor
has one per core; it keeps producers, consumers and what is known of topics.

It ends with the process that Spark starts workers from, and loses nothing by being killed: the task
that waits for it fails, Spark tries again, and the next one fences what this one left.
"""

from __future__ import annotations

import os
import select
import sys
import time
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from threading import Lock, Thread
from typing import Final

from checkback.protocol.errors import CheckbackError, OperationalError
from checkback.sinks.writers import WriteRequest, Writers

WAITING_TASKS_MAX: Final = 64
LOOK_S: Final = 1.0
LAST_WRITE_S: Final = 60.0


def serve(address: str, owner_pid: int) -> None:
    """Write what tasks ask for, one request after the other, until the owner ends.

    Args:
        address: path of the socket to listen at.
        owner_pid: process without which this one has nothing to do.
    """
    writers, writing = Writers(), Lock()
    with Listener(address, "AF_UNIX", backlog=WAITING_TASKS_MAX) as listener:
        Thread(target=_end_with, args=(owner_pid, writing, address), daemon=True).start()
        while True:
            # A task that was killed hangs up early; Spark knows.
            with suppress(EOFError, OSError), listener.accept() as connection, writing:
                _answer(connection, writers)


def _answer(connection: Connection, writers: Writers) -> None:
    request: WriteRequest = connection.recv()
    try:
        answer: object = writers.write(request)
    except CheckbackError as error:
        answer = error
    except Exception as error:
        # Raised again by the task that asked; not every error can travel, its text can.
        trace = traceback.format_exc()
        answer = OperationalError(f"The sink failed: {type(error).__name__}: {error}", trace=trace)
    connection.send(answer)


def _end_with(owner_pid: int, writing: Lock, address: str) -> None:
    _wait_for_end(owner_pid)
    # A transaction that is being written is finished: nobody has to wait for its timeout then.
    # Not one that hangs: librdkafka has calls that a broker's end leaves without one (#5456).
    writing.acquire(timeout=LAST_WRITE_S)
    for left in (Path(address), Path(address).with_suffix(".lock")):
        left.unlink(missing_ok=True)
    with suppress(OSError):  # others are still at work beside it
        Path(address).parent.rmdir()
    os._exit(0)


def _wait_for_end(pid: int) -> None:
    with suppress(ProcessLookupError):
        if hasattr(os, "pidfd_open"):
            select.select([os.pidfd_open(pid)], [], [])
            return
        while True:
            os.kill(pid, 0)
            time.sleep(LOOK_S)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
