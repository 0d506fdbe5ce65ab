"""What Spark keeps on disk: plans, commits and the versions of the state, one folder for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.exactly_once.fates import Fates
from tests.unit.notes import Notes

PageKey = tuple[int, int]
"""(half partition, number of the page)."""
Pages = Mapping[PageKey, tuple[bytes, int]]
"""By page: its packed form, and when its time comes."""


class ConcurrentLogError(Exception):
    """Spark's CONCURRENT_STREAM_LOG_UPDATE: somebody else has written this batch's entry."""


@dataclass(slots=True, eq=False)
class Plan:
    """``offsets/N``: where the input of a batch ends, and what time it is.

    Args:
        now_ms: the batch's timestamp.
        starts: (topic, partition) to the first offset that is read.
        ends: the same to the first offset that is not.
        ahead_ms: how far the clock of this time is ahead of the brokers'.
        known: what is derived from it; a plan, its terms and a page decide the same every time.
    """

    now_ms: int
    starts: Mapping[tuple[str, int], int]
    ends: Mapping[tuple[str, int], int]
    ahead_ms: int = 0
    known: dict[Any, Any] = field(default_factory=dict)


class Checkpoint(Notes):
    """The checkpoint folder; the job's own code sees it as its CheckpointFolder.

    Args:
        fates: asked at each look.
        overwrites: ``offsets/N`` is written by asking whether it is there and then putting it, as
            on an object store without conditional writes; else it is created or refused at once.
    """

    path = "simulated"

    def __init__(self, fates: Fates, *, overwrites: bool) -> None:
        super().__init__()
        self.fates = fates
        self.overwrites = overwrites
        self.planned: Callable[[int, Plan], None] = lambda _batch, _plan: None
        self.plans: dict[int, Plan] = {}
        self.commits: set[int] = set()
        self.states: dict[tuple[int, int], Pages] = {}

    def last_batch(self, log: str) -> int | None:
        self.fates.before(f"read {log}")
        entries = self.plans if log == "offsets" else self.commits
        return max(entries, default=None)

    def batch_times_ms(self, log: str) -> dict[int, int]:
        """None: the transaction timeout is set, not derived."""
        del log
        return {}

    def plan(self, batch: int, plan: Plan) -> None:
        """Write ``offsets/N``.

        Raises:
            ConcurrentLogError: it is there.
        """
        if self.overwrites:
            self.fates.before("look for a plan")
            self._require_none(batch)
            self.fates.before("write offsets")
        else:
            self.fates.before("write offsets")
            self._require_none(batch)
        self.plans[batch] = plan
        self.planned(batch, plan)
        self.fates.after("write offsets")

    def commit(self, batch: int) -> None:
        """Write ``commits/N``.

        Raises:
            ConcurrentLogError: it is there.
        """
        self.fates.before("write commits")
        if batch in self.commits:
            raise ConcurrentLogError(f"commits/{batch}")
        self.commits.add(batch)
        self.fates.after("write commits")

    def lose_commit(self) -> bool:
        """Lose the newest commit, as a power loss tears it; tell whether there was one to lose."""
        last = max(self.commits, default=-1)
        if last < 0 or last != max(self.plans):
            return False
        self.commits.remove(last)
        return True

    def create_own(self, name: str, text: str) -> bool:
        self.fates.before("write terms")
        is_new = super().create_own(name, text)
        self.fates.after("write terms")
        return is_new

    def replace_own(self, name: str, text: str) -> None:
        self.fates.before("write terms")
        super().replace_own(name, text)
        self.fates.after("write terms")

    def load(self, state_partition: int, batch: int) -> Pages:
        """Return the state that a batch begins with: version N, what batch N-1 left."""
        self.fates.before("load state")
        if batch == 0:
            return {}
        return self.states[state_partition, batch]

    def store(
        self, state_partition: int, batch: int, pages: Pages, is_current: Callable[[], bool]
    ) -> None:
        """Write the state that a batch leaves, over whatever an earlier try wrote."""
        self.fates.before("store state")
        if is_current():  # else run.py names it among what is not in the simulation
            self.states[state_partition, batch + 1] = pages
        self.fates.after("store state")

    def _require_none(self, batch: int) -> None:
        if batch in self.plans:
            raise ConcurrentLogError(f"offsets/{batch}")
