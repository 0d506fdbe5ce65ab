"""The sink's own process, which outlives Spark's tasks.

Spark hands its Python workers out in turn, so a state partition's next task runs in another worker
than its last. A producer in a worker was therefore fenced in nearly every batch, and a new one
costs some 55 ms and three connections. So the tasks ask this process instead. An executor has one
per core; it keeps producers, consumers and what is known of topics.

It ends with the process that Spark starts workers from. A kill loses nothing: the task that waits
for it fails, Spark tries again, and the next process fences the transaction that this one left.
"""

from __future__ import annotations

import logging
import os
import select
import sys
import time
import traceback
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from threading import Lock, Thread
from typing import Final

from checkback.metrics.log_lines import log_context, write_log_lines
from checkback.protocol.errors import CheckbackError, OperationalError
from checkback.sinks.process.key import key_file, read_key
from checkback.sinks.process.writer_pool import WriteRequest, Writers

_log = logging.getLogger("checkback.sinks.process.server")  # it runs as __main__

WAITING_TASKS_MAX: Final = 64
LOOK_S: Final = 1.0
LAST_WRITE_S: Final = 60.0


def serve(address: str, owner_pid: int) -> None:
    """Write what tasks ask for, one request after the other, until the owner ends."""
    writers, writing = Writers(), Lock()
    key = read_key(Path(address))
    with Listener(address, "AF_UNIX", backlog=WAITING_TASKS_MAX, authkey=key) as listener:
        Thread(target=_end_with, args=(owner_pid, writing, address), daemon=True).start()
        while True:
            # A killed task hangs up early, and Spark knows. A caller without the key gets no
            # answer.
            lost = suppress(EOFError, OSError, AuthenticationError)
            with lost, listener.accept() as connection, writing:
                _answer(connection, writers)


def _answer(connection: Connection, writers: Writers) -> None:
    request: WriteRequest = connection.recv()
    write_log_lines(request.settings.pipeline.log_format, request.settings.pipeline.log_level)
    with log_context(batch_id=request.batch_id, state_partition=request.state_partition):
        connection.send(_written(request, writers))


def _written(request: WriteRequest, writers: Writers) -> object:
    try:
        return writers.write(request)
    except CheckbackError as error:
        # The driver logs it once.
        _log.info("The batch was not written: %s", error)
        return error
    except Exception as error:
        # Raised again by the task that asked; not every error can travel, its text can.
        trace = traceback.format_exc()
        return OperationalError(f"The sink failed: {type(error).__name__}: {error}", trace=trace)


def _end_with(owner_pid: int, writing: Lock, address: str) -> None:
    _wait_for_end(owner_pid)
    # Finish a transaction that is being written: else its successor would wait for its timeout. A
    # writer that hangs is not waited for: after a broker's end some calls of librdkafka never
    # return (#5456).
    writing.acquire(timeout=LAST_WRITE_S)
    path = Path(address)
    ended = path.parent.glob(f"{path.name}-*.ended")
    for left in (path, path.with_suffix(".lock"), key_file(path), *ended):
        left.unlink(missing_ok=True)
    with suppress(OSError):  # others are still at work beside it
        path.parent.rmdir()
    os._exit(0)


def _wait_for_end(pid: int) -> None:
    with suppress(ProcessLookupError):
        try:
            select.select([os.pidfd_open(pid)], [], [])
        except ProcessLookupError:
            return
        except (AttributeError, OSError):  # an older kernel or a sandbox has no such call
            while True:
                os.kill(pid, 0)
                time.sleep(LOOK_S)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
