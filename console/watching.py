"""Reads all sources repeatedly for ``checkback top``, without waiting for a silent one.

A request to silent brokers takes 20 seconds. So each source has a thread of its own, and ``top``
shows what is known meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final, Generic, TypeVar

from checkback.console.history import History
from checkback.console.kafka_facts import GroupRow
from checkback.console.opening import Sources
from checkback.protocol.durations import duration_text
from checkback.protocol.errors import CheckbackError

LATE_S: Final = 1.5
"""From then on the terminal says what is waited for; brokers that answer do so before."""

Answer = TypeVar("Answer")


class Inquiry(Generic[Answer]):
    """Asks a source in a thread of its own; the caller chooses how long to wait for the answer.

    Args:
        ask: asks it, and returns what it says.
        clock_s: a clock that only goes forward.
    """

    def __init__(
        self, ask: Callable[[], Answer], clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask, self._clock_s = ask, clock_s
        self._answers: SimpleQueue[Answer | Exception] = SimpleQueue()
        self._since_s: float | None = None

    def begin(self) -> None:
        """Ask, unless the answer to an earlier question is still to come."""
        if self._since_s is None:
            self._since_s = self._clock_s()
            # Nobody who ends the command waits for it.
            Thread(target=self._run, name="inquiry", daemon=True).start()

    @property
    def waits_s(self) -> float:
        """For how long the source has not answered; 0 if nothing is asked."""
        return 0.0 if self._since_s is None else self._clock_s() - self._since_s

    def answer(self, within_s: float | None) -> Answer | None:
        """Return the answer, once; None if nothing is asked, or it does not come in that time.

        Args:
            within_s: how long to wait; None: for as long as it takes.

        Raises:
            Exception: what asking raised.
        """
        if self._since_s is None:
            return None
        try:
            told = self._answers.get(timeout=None if within_s is None else max(0.0, within_s))
        except Empty:
            return None
        self._since_s = None
        if isinstance(told, Exception):
            raise told
        return told

    def _run(self) -> None:
        try:
            self._answers.put(self._ask())
        except Exception as error:  # raised where the answer is taken
            self._answers.put(error)


class SourceWatch:
    """What is known of figures and producer groups by now.

    Args:
        sources: where both come from.
    """

    def __init__(self, sources: Sources) -> None:
        self.history = History()
        self._groups: Sequence[GroupRow] | str | None = None
        self._figures = Inquiry(sources.snapshots.read)
        self._listing = Inquiry(lambda: listed_groups(sources))

    @property
    def groups(self) -> Sequence[GroupRow] | str:
        """The producer groups, or why they are not known."""
        return "The producer groups are not known yet." if self._groups is None else self._groups

    def begin(self) -> None:
        """Ask what is not being asked already."""
        self._figures.begin()
        self._listing.begin()

    def take_figures(self, within_s: float | None) -> bool:
        """Take the figures if they come in that time, and tell whether they did.

        Args:
            within_s: how long to wait; None: until all of their sources answered or gave up.
        """
        figures = self._figures.answer(within_s)
        if figures is not None:
            self.history.add(figures)
        return figures is not None

    def take_groups(self, within_s: float | None) -> bool:
        """Take the groups if they come in that time, and tell whether they did.

        Args:
            within_s: how long to wait; None: until Kafka answered, or was given up.
        """
        groups = self._listing.answer(within_s)
        if groups is not None:
            self._groups = groups
        return groups is not None

    @property
    def late(self) -> tuple[str, ...]:
        """The sources that are so late that the screen has to name them."""
        asked: dict[str, Inquiry[Any]] = {
            "the pipeline's figures": self._figures,
            "Kafka": self._listing,
        }
        return tuple(
            f"Waiting for {name}, for {duration_text(int(one.waits_s * 1_000))} already."
            for name, one in asked.items()
            if one.waits_s >= LATE_S
        )


def listed_groups(sources: Sources) -> Sequence[GroupRow] | str:
    """Return the producer groups, or why Kafka does not tell them."""
    try:
        return sources.facts.groups()
    except CheckbackError as error:
        return str(error)
