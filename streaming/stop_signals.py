"""Takes the signals that end a process as the wish to stop between two batches."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def stop_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Take SIGTERM and SIGINT as the wish to stop, as long as the context lasts."""
    previous = {
        number: signal.signal(number, lambda *_: stop())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
