"""Calls a function at an interval, in a thread."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import ClassVar, Self


@contextmanager
def sampling(look: Callable[[], None], every_s: float, name: str) -> Iterator[None]:
    """Call a function every few seconds, in a thread with this name, until the block ends."""
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


@dataclass(slots=True)
class Sampler(ABC):
    """Takes samples at an interval, in a thread; a context manager."""

    every_s: ClassVar[float]

    _sampling: ExitStack = field(default_factory=ExitStack, init=False)

    @abstractmethod
    def look(self) -> None:
        """Take a sample now."""

    def __enter__(self) -> Self:
        self._sampling.enter_context(sampling(self.look, self.every_s, type(self).__name__))
        return self

    def __exit__(self, *_: object) -> None:
        self._sampling.close()
