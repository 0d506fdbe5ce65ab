"""Notes in the checkpoint of what a batch was decided by, so that a replay decides the same.

A note belongs to one plan: one that was dropped may have left a note under its successor's number.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from checkback.checkpoints.store import CheckpointStore
from checkback.protocol.errors import CheckpointError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BatchNotes(Generic[T]):
    """The notes of one kind, a file for each batch that has one.

    Args:
        store: the checkpoint.
        folder: of their files.
        time: the name under which a note has a time of its plan.
        content: the name under which it has what it says.
        parsed: makes that of what JSON has; raises ValueError, TypeError, KeyError or
            AttributeError where it can't.
    """

    store: CheckpointStore
    folder: str
    time: str
    content: str
    parsed: Callable[[Any], T]

    def write(self, batch_id: int, time_ms: int, said: Any) -> T:
        """Write a note unless there is one of this plan; return what is noted.

        Args:
            batch_id: Spark's number of the batch.
            time_ms: of its plan.
            said: what the note says, as JSON can have it.

        Raises:
            CheckpointError: the note that is there can't be read.
            PrerequisiteError: it can't be written.
        """
        text = json.dumps({self.time: time_ms, self.content: said})
        if not self.store.create_own(self._file(batch_id), text):
            noted = self.of_plan(batch_id, time_ms)
            if noted is not None:
                return noted
            self.store.replace_own(self._file(batch_id), text)
        for number in self.numbers():
            if number < batch_id:
                self.store.delete_own(self._file(number))
        return self.parsed(json.loads(text)[self.content])

    def numbers(self) -> list[int]:
        """Return the batches that have a note."""
        return self.store.own_numbers(self.folder)

    def of_plan(self, batch_id: int, time_ms: int) -> T | None:
        """Return what is noted of a batch; None if nothing is, or only of a dropped plan."""
        noted = self.read(batch_id)
        return None if noted is None or noted[0] != time_ms else noted[1]

    def read(self, batch_id: int) -> tuple[int, T] | None:
        """Return a note, with the time of the plan that it was written for.

        Raises:
            CheckpointError: it can't be read.
        """
        text = self.store.read_own(self._file(batch_id))
        if text is None:
            return None
        try:
            said = json.loads(text)
            return int(said[self.time]), self.parsed(said[self.content])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CheckpointError(
                f"The checkpoint's {self._file(batch_id)} can't be read: {error!r}.",
                remedy="Restore it from a backup; see `checkback docs recovering`.",
                batch_id=batch_id,
            ) from error

    def _file(self, batch_id: int) -> str:
        return f"{self.folder}/{batch_id}.json"
