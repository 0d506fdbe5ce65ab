"""Looking at something, or doing something, again and again, in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def looking(look: Callable[[], None], every_s: float, name: str) -> Iterator[None]:
    """Call a function every so many seconds, in a thread of that name, until the block ends."""
    ending = threading.Event()

    def run() -> None:
        while not ending.wait(every_s):
            look()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()
