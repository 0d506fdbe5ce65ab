"""Every pending transaction, from the checkpoint, in memory; read again after new batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final

from checkback.checkpoints.own_files.batch_terms import TermsNote, all_notes
from checkback.checkpoints.pending.pending_halves import (
    SORTS,
    PendingGroup,
    PendingHalf,
    PendingTable,
)
from checkback.checkpoints.spark_files.state_rows import read_state
from checkback.operations.transactions.pending import groups_pending, half_reader, look_up
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import ConfigurationError, PrerequisiteError, UsageError
from checkback.sinks.kafka.read.record_reader import RecordSource

PAUSE_RATIO: Final = 10
"""How much longer than a reading the pause after it lasts: one of a million halves takes a second
of a core, one through Hadoop starts a JVM."""


@dataclass(frozen=True, slots=True)
class PendingPage:
    """A page of pending transactions.

    Args:
        batch: the last batch in the state that was read, None before the first.
    """

    rows: list[dict[str, Any]]
    total: int
    batch: int | None


@dataclass(frozen=True, slots=True)
class Reading:
    """What the checkpoint held after one batch.

    Args:
        batch: the last committed one, None before the first.
        notes: the rules that decided, from the time of a batch on, the oldest first.
    """

    batch: int | None
    table: PendingTable
    notes: list[TermsNote]


@dataclass(slots=True)
class PendingView:
    """What the checkpoint holds; several threads may ask at once."""

    settings: Settings
    read: Callable[[Settings, Reading | None], Reading] = lambda *known: read_checkpoint(*known)
    open_reader: Callable[[Settings], RecordSource] = half_reader
    clock_s: Callable[[], float] = time.monotonic
    _reading: Reading | None = None
    _next_s: float = 0.0
    _names: dict[int, str] = field(default_factory=dict)
    """Group names by their hash; each is looked up in one of the group's halves."""
    _lock: Lock = field(default_factory=Lock)

    def refresh(self) -> Reading:
        """Read the state if a batch was committed since the last time; return what it holds.

        Raises:
            ConfigurationError: no checkpoint is set.
            NotFoundError: no pipeline has run over it yet.
            CheckpointError: its state can't be read.
        """
        with self._lock:
            if self._reading is None or self.clock_s() >= self._next_s:
                began_s = self.clock_s()
                self._reading = self.read(self.settings, self._reading)
                ended_s = self.clock_s()
                self._next_s = ended_s + PAUSE_RATIO * (ended_s - began_s)
            return self._reading

    def page(
        self, sort: str, first: int, most: int, group: str = "", stored_until_ms: int | None = None
    ) -> PendingPage:
        """Return a page of what is pending; ids, groups and topics come from the half topic.

        Args:
            group: choose only halves of this group; of all, if it is empty.

        Raises:
            UsageError: there is no such order or page.
            CheckbackError: the checkpoint, or Kafka, can't be read.
        """
        if sort not in SORTS or first < 0:
            raise UsageError("There is no such order or page.")
        reading = self.refresh()
        halves, total = reading.table.page(
            sort, first, most, group=group or None, stored_until_ms=stored_until_ms
        )
        return PendingPage(self._rows(halves, reading.notes), total, reading.batch)

    def groups(self) -> list[tuple[str, PendingGroup]]:
        """Return what is pending by group name, "" where the half is gone from its topic.

        Raises:
            CheckbackError: the checkpoint, or Kafka, can't be read.
        """
        found = self.refresh().table.groups
        unknown = {tag: group for tag, group in found.items() if tag not in self._names}
        if unknown:
            with closing(self.open_reader(self.settings)) as reader:
                named = groups_pending(reader, list(unknown.values()))
            tags = {id(group): tag for tag, group in unknown.items()}
            self._names |= {tags[id(group)]: name for name, group in named if name}
        return sorted((self._names.get(tag, ""), group) for tag, group in found.items())

    def _rows(self, halves: list[PendingHalf], notes: list[TermsNote]) -> list[dict[str, Any]]:
        if not halves:
            return []
        with closing(self.open_reader(self.settings)) as reader:
            found = look_up(reader, halves)
        return [
            {
                **one.as_data(0),
                "at": f"{one.half.partition}:{one.half.offset}",
                "asked_ms": asked_ms(notes, one.half.deadline_ms) if one.half.check_times else None,
            }
            for one in found
        ]


def asked_ms(notes: list[TermsNote], deadline_ms: int) -> int | None:
    """Return when a half was last asked about: one check interval before its deadline."""
    times = [(note.planned_ms, deadline_ms - note.terms.rules.check_interval_ms) for note in notes]
    by_later = [asked for from_ms, asked in times if asked >= from_ms]
    return by_later[-1] if by_later else next((asked for _, asked in times), None)


def read_checkpoint(settings: Settings, known: Reading | None = None) -> Reading:
    """Return what the checkpoint holds; what is known already if no batch was committed since."""
    with checkpoint_readable(settings):
        from checkback.operations.checkpoint.open import open_state

        with open_state(settings) as store:
            if known is not None and known.batch == store.last_batch("commits"):
                return known
            state, notes = read_state(store), all_notes(store)
    if state is None:
        return Reading(None, PendingTable.of(()), notes)
    return Reading(state.batch, PendingTable.of(state.pages), notes)


@contextmanager
def checkpoint_readable(settings: Settings) -> Iterator[None]:
    """Say what is missing. What reads a checkpoint is imported late: it may be Spark's.

    Raises:
        ConfigurationError: no checkpoint is set.
        PrerequisiteError: a package is missing.
    """
    if not settings.checkpoint:
        raise ConfigurationError(
            "checkpoint is not set.",
            remedy="Start with the pipeline's configuration, or give --checkpoint.",
        )
    try:
        yield
    except ModuleNotFoundError as error:
        raise PrerequisiteError(
            f"The checkpoint can't be read: the package {error.name} is missing.",
            remedy="Install checkback[spark] beside checkback[web].",
        ) from error
