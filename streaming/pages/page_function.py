"""The stateful operator's function: one call per page and batch, all rules in ``state``.

Spark's traps that shape it (each measured or read in the sources of 4.2.0): a call that ends
without `update` and `setTimeoutDuration`, or `remove`, keeps the old timeout and is called again in
every batch; `update` alone clears the timeout; a group may come in several frames, in any order.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pandas as pd
from pyspark.sql.streaming.state import GroupState

from checkback.state import (
    NOTHING_READ,
    Action,
    Counter,
    Events,
    Outcome,
    Page,
    Rules,
    decide,
)
from checkback.state.formats.identity import group_part
from checkback.streaming.batch.terms import TaskTerms, terms_of_task
from checkback.streaming.pages.event_columns import unpacked
from checkback.streaming.pages.page_key import PageKeys
from checkback.streaming.spark.python_workers import keep_modules

STATE_VERSION: Final = 1
STATE_SCHEMA: Final = "version int, page binary"
"""One versioned blob: Spark can't evolve a state schema, and arrays in it fail (4.2.0)."""
PASS_MS_LEAST: Final = 250
"""No batch is shorter than this with state on; the pace at which a queue of checks can shrink."""
SLEEP_MS_MAX: Final = 10_000
BACKLOG_SLEEP_MS: Final = 1_000
"""How long a page with due halves sleeps while ops are unread. Without it Spark would call all
such pages in every batch of a backlog, a millisecond each, only to find again that ops are
unread."""
OUTCOME_SCHEMA: Final = "partition int, page long, outcome binary"

Frames = Iterator[pd.DataFrame]
GroupFunction = Callable[[tuple[Any, ...], Frames, GroupState], Frames]


@dataclass(frozen=True, slots=True)
class PageSettings:
    """The operator's settings; they travel to every task.

    Args:
        tell_prepared: whether outcomes name the halves that became pending, for the ledger.
    """

    page_size: int
    keys: PageKeys
    tell_prepared: bool = False


@dataclass(slots=True)
class CheckBudget:
    """Check requests that one pass over a state partition may still make.

    Args:
        left: None before the pass begins, because the number follows from the rules of the batch's
            time.
        queued: halves that were due but over the budget, of the pages seen so far.
        asked: how many requests each group has had, by state.identity.group_part.
    """

    left: int | None = None
    of_pass: int = 1
    queued: int = 0
    asked: dict[int, int] = field(default_factory=dict)

    @property
    def of_group(self) -> int:
        """How many requests one group may have, so that its queue does not hold up all others."""
        return max(1, self.of_pass * 3 // 4)

    def begin(self, rules: Rules) -> int:
        """Return what is left; each of the two passes of a batch begins with half."""
        if self.left is None:
            self.left = self.of_pass = max(1, rules.checks_per_batch_max // 2)
        return self.left

    def spend(self, outcome: Outcome) -> None:
        """Take off what a page asked, and queue what it could not ask."""
        asked = outcome.action == Action.CHECK
        if asked.any() and outcome.identity is not None:
            self.left = (self.left or 0) - int(np.count_nonzero(asked))
            groups = Counts(group_part(outcome.identity[asked]).tolist())
            self.asked = dict(Counts(self.asked) + groups)
        self.queued += int(outcome.counters[Counter.CHECKS_DEFERRED])

    def sleep_ms(self) -> int:
        """Return how long a page over the budget may sleep until its turn comes.

        If Spark called the pages of a million waiting halves in every batch, each batch would take
        a second more for nothing. So the pages that the budget of
        the next batches can't reach sleep on; new records wake their page at any time.
        """
        return min(SLEEP_MS_MAX, self.queued // self.of_pass * PASS_MS_LEAST)


@dataclass(slots=True)
class PageFunction:
    """The function for applyInPandasWithState.

    Spark loads it again for each of the two passes over a state partition in a batch (pages with
    data, then pages that are due), so the budget it holds is one pass's: each gets half.
    What a pass sees and in which order is fixed by state and input, so a replay spends alike;
    due pages come oldest first (page_key.page_key_of).
    """

    settings: PageSettings
    budget: CheckBudget = field(default_factory=CheckBudget)

    def __reduce__(self) -> tuple[Callable[[PageSettings], PageFunction], tuple[PageSettings]]:
        return _loaded, (self.settings,)

    def __call__(self, key: tuple[Any, ...], frames: Frames, state: GroupState) -> Frames:
        """Advance the page of that key; a generator of one frame with one row."""
        place = self.settings.keys.place_of(key)
        events = events_of(frames, place[0] * self.settings.page_size)
        yield advance_page(self.settings, self.budget, place, events, state, terms_of_task())


def _loaded(settings: PageSettings) -> PageFunction:
    """Return the function as a Python worker loads it: also for a pass without a page."""
    keep_modules()
    return PageFunction(settings)


def advance_page(
    settings: PageSettings,
    budget: CheckBudget,
    place: tuple[int, int],
    events: Events,
    state: GroupState,
    terms: TaskTerms,
) -> pd.DataFrame:
    """Let one page decide, keep its state, and return its outcome as one row."""
    number, partition = place
    clock_ms, rules = state.getCurrentProcessingTimeMs(), terms.rules
    # The rules compare with times that the brokers gave, so they get the brokers' time.
    now_ms, read_until_ms = clock_ms - terms.clock_ahead_ms, terms.read_until_of(partition)
    left = budget.begin(rules)
    if state.exists:
        page = Page.unpack(bytes(state.get[1]))
    else:
        page = Page.empty(partition, number, settings.page_size)
    # Step 4: the page decides.
    decision = decide(
        page,
        events,
        now_ms,
        rules,
        left,
        asked=budget.asked,
        asked_of_group=budget.of_group,
        read_until_ms=read_until_ms,
        tell_prepared=settings.tell_prepared,
        relay=terms.limits_of(partition),
    )
    outcome, packed = decision.outcome, b""
    if decision.wake_at_ms is None:
        state.remove()
    else:
        packed = decision.page.pack()
        state.update((STATE_VERSION, packed))
        waits = terms.waits_for_mark(partition)
        duration_ms = sleep_ms(decision.wake_at_ms, now_ms, read_until_ms, budget, waits=waits)
        state.setTimeoutDuration(duration_ms)
        outcome = replace(outcome, wake_at_ms=clock_ms + duration_ms, state_bytes=len(packed))
    budget.spend(outcome)
    blob = outcome.pack()
    return pd.DataFrame({"partition": [partition], "page": [number], "outcome": [blob]})


def sleep_ms(
    wake_at_ms: int, now_ms: int, read_until_ms: int, budget: CheckBudget, *, waits: bool = False
) -> int:
    """Return how long a page sleeps before its next deadline.

    The time may have passed already, if its ops are unread, if it waits for a relay's mark, or the
    budget was spent.
    """
    if wake_at_ms > now_ms:
        return wake_at_ms - now_ms
    if read_until_ms == NOTHING_READ or waits:
        return BACKLOG_SLEEP_MS
    # Spark fires strictly after the timeout; 1 is the shortest it takes.
    return max(1, budget.sleep_ms()) if wake_at_ms < read_until_ms else 1


def events_of(frames: Frames, first_offset: int) -> Events:
    """Return all events of a page from its first offset on; the frames' bounds mean nothing.

    A page that is due is called with one empty frame.
    """
    chunks = [frame for frame in frames if len(frame)]
    if not chunks:
        return Events.empty()
    return unpacked(
        chunks[0] if len(chunks) == 1 else pd.concat(chunks, ignore_index=True), first_offset
    )
