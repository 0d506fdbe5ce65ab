"""The rules of the check service in memory, with a clock that a test sets.

It decides as the pipeline does (`checkback.state`), without Kafka and Spark. Use it to test
settings, and what happens to a transaction at which time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import NotFoundError, UsageError
from checkback.protocol.refusals import RefusedReason
from checkback.state import Action, EventKind, Events, Outcome, Page, Rules, decide
from checkback.state.formats.identity import identity_words

START_MS: Final = 1_700_000_000_000
PAGE_SIZE: Final = 4_096
WITHOUT_IMMUNITY: Final = -1


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What one batch decided.

    Args:
        finals: ids of the committed transactions; each becomes a final message.
        rolled_back: ids of the transactions that were rolled back.
        checks: ids of the transactions with a check request, and its check number, from 1.
        discards: ids of the discarded transactions.
        refusals: ids in the refused ops and halves, and why each was refused.
    """

    finals: tuple[str, ...] = ()
    rolled_back: tuple[str, ...] = ()
    checks: tuple[tuple[str, int], ...] = ()
    discards: tuple[str, ...] = ()
    refusals: tuple[tuple[str, RefusedReason], ...] = ()


@dataclass(frozen=True, slots=True)
class _Record:
    """A row of Events."""

    kind: EventKind
    offset: int
    time_ms: int
    group: str
    transaction_id: str
    detail: int
    source_offset: int


class PageEngine:
    """One half partition, its ops, and the pages of its state.

    Args:
        settings: the settings that the rules use (transaction_timeout_ms, check_interval_ms,
            check_max and so on); default: the pipeline's defaults.
        now_ms: the clock's first time, milliseconds since 1970.
    """

    def __init__(self, settings: Settings | None = None, now_ms: int = START_MS) -> None:
        chosen = settings or Settings()
        self.rules = Rules.from_settings(chosen)
        self.now_ms = now_ms
        self._page_size = chosen.page_size or PAGE_SIZE
        self._halves: list[_Record] = []
        self._op_ids: list[str] = []
        self._waiting: list[_Record] = []
        self._pages: dict[int, tuple[Page, int]] = {}

    @property
    def pending(self) -> int:
        """The number of halves without a verdict."""
        return sum(page.pending for page, _ in self._pages.values())

    @property
    def next_deadline_ms(self) -> int | None:
        """The time after which a batch has something to do even without a record; None: never."""
        return min((wake_at_ms for _, wake_at_ms in self._pages.values()), default=None)

    def advance(self, ms: int) -> BatchOutcome:
        """Advance the clock and run a batch.

        Args:
            ms: by how much; whatever is due in between is decided at the end.

        Raises:
            UsageError: it is negative.
        """
        if ms < 0:
            raise UsageError(f"The clock can't go back by {-ms} ms.")
        self.now_ms += ms
        return self.run_batch()

    def advance_to_deadline(self) -> BatchOutcome:
        """Advance the clock until something is due and run a batch.

        Raises:
            NotFoundError: nothing will ever be due.
        """
        deadline_ms = self.next_deadline_ms
        if deadline_ms is None:
            raise NotFoundError("Nothing is due: no half, op or verdict is remembered.")
        return self.advance(max(0, deadline_ms + 1 - self.now_ms))

    def send_half(
        self, transaction_id: str, *, group: str = "g", immunity_s: int | None = None
    ) -> int:
        """Store a half; the next batch reads it.

        Args:
            transaction_id: an id that no other half of this engine has.
            group: producer group.
            immunity_s: the half's CHECK_IMMUNITY_TIME_IN_SECONDS.

        Returns:
            The half's offset.
        """
        offset = len(self._halves)
        detail = WITHOUT_IMMUNITY if immunity_s is None else 1_000 * immunity_s
        half = _Record(EventKind.HALF, offset, self.now_ms, group, transaction_id, detail, offset)
        self._halves.append(half)
        self._waiting.append(half)
        return offset

    def send_op(
        self,
        transaction_id: str,
        state: int,
        *,
        offset: int | None = None,
        group: str | None = None,
    ) -> None:
        """Store an op; the next batch reads it.

        Args:
            transaction_id: the transaction id in the op.
            state: 8 commit, 12 rollback, 0 unknown.
            offset: the half offset in the op; default: that of the transaction's half.
            group: the group in the op; default: the half's.

        Raises:
            NotFoundError: no half has this id, and no offset is given.
        """
        at = self._offset_of(transaction_id) if offset is None else offset
        known = self._halves[at].group if at < len(self._halves) else "g"
        by = known if group is None else group
        source = len(self._op_ids)
        self._op_ids.append(transaction_id)
        self._waiting.append(
            _Record(EventKind.OP, at, self.now_ms, by, transaction_id, state, source)
        )

    def run_batch(self) -> BatchOutcome:
        """Run a batch over the records sent since the last one, and everything due now."""
        by_page: dict[int, list[_Record]] = defaultdict(list)
        for record in self._waiting:
            by_page[record.offset // self._page_size].append(record)
        self._waiting = []
        due = [number for number, (_, wake_ms) in self._pages.items() if wake_ms < self.now_ms]
        outcomes = [self._decide(number, by_page[number]) for number in sorted({*by_page, *due})]
        return self._told(outcomes)

    def _offset_of(self, transaction_id: str) -> int:
        for offset, half in enumerate(self._halves):
            if half.transaction_id == transaction_id:
                return offset
        raise NotFoundError(
            f"No half has the transaction id {transaction_id!r}.",
            remedy="Send the half first, or give offset.",
        )

    def _decide(self, number: int, records: Sequence[_Record]) -> Outcome:
        page, _ = self._pages.pop(number, (Page.empty(0, number, self._page_size), 0))
        decision = decide(page, _events_of(records), self.now_ms, self.rules)
        if decision.wake_at_ms is not None:
            self._pages[number] = decision.page, decision.wake_at_ms
        return decision.outcome

    def _told(self, outcomes: Sequence[Outcome]) -> BatchOutcome:
        rows = [row for outcome in outcomes for row in self._rows(outcome)]

        def ids(*actions: Action) -> tuple[str, ...]:
            return tuple(name for action, name, _ in rows if action in actions)

        return BatchOutcome(
            finals=ids(Action.COMMIT),
            rolled_back=ids(Action.ROLLBACK),
            checks=tuple((name, times) for action, name, times in rows if action == Action.CHECK),
            discards=ids(Action.DISCARD_CHECK_LIMIT, Action.DISCARD_EXPIRED),
            refusals=tuple(
                (name, RefusedReason(reason))
                for action, name, reason in rows
                if action in (Action.REFUSE_OP, Action.REFUSE_HALF)
            ),
        )

    def _rows(self, outcome: Outcome) -> Iterator[tuple[Action, str, int]]:
        """Yield the decisions: the action, the transaction id and the row's detail."""
        columns = (outcome.action, outcome.offset, outcome.detail, outcome.source_offset)
        for code, offset, detail, source in zip(*(one.tolist() for one in columns), strict=True):
            action = Action(code)
            is_op = action is Action.REFUSE_OP  # its half may not exist
            name = self._op_ids[source] if is_op else self._halves[offset].transaction_id
            yield action, name, detail


def _events_of(records: Sequence[_Record]) -> Events:
    identities = [
        identity_words(one.group.encode(), one.transaction_id.encode()) for one in records
    ]
    return Events(
        kind=np.array([one.kind for one in records], np.uint8),
        offset=np.array([one.offset for one in records], np.int64),
        time_ms=np.array([one.time_ms for one in records], np.int64),
        identity=np.array([word for word, _ in identities], np.int64),
        detail=np.array([one.detail for one in records], np.int64),
        source_offset=np.array([one.source_offset for one in records], np.int64),
        identity_rest=np.array([rest for _, rest in identities], np.int64),
    )
