"""The page engine: decides about one page in one batch.

Order inside a batch: halves, then ops (those that waited first), then feedback of checks, then
discards and checks, then what has run out. So every op of the batch is read before a half is
discarded (RocketMQ #8311, #9320), and no check follows an accepted commit (#1517).

A time has passed when now is later than it, not when it is equal: that is when Spark fires, and
RocketMQ's ``age > immunity``. Both tests are this one test, so no millisecond falls between them
(#544, #9486).

Checks, discards and refusals of ops without a half conclude from silence. So they compare their
deadline with the time up to which everything was read, not with now: after an outage a half may be
older than every deadline while its commit is still unread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from checkback.state.formats.events import EventKind, Events
from checkback.state.formats.outcome import Action, Outcome
from checkback.state.formats.relay_limits import NO_RELAY, RelayLimits
from checkback.state.page.page import Page
from checkback.state.page.page_builder import PageBuilder
from checkback.state.rules import Rules
from checkback.state.steps.checks import ask_and_discard, next_deadline_ms, take_feedback
from checkback.state.steps.halves import take_halves
from checkback.state.steps.ops import expire_waiting_ops, refuse_waiting_too_early, take_ops
from checkback.state.steps.shares import UNLIMITED
from checkback.state.steps.verdict_retention import forget_verdicts, remember_verdicts

ALL_READ: Final = 2**62
NOTHING_READ: Final = -1


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of `decide`.

    Args:
        wake_at_ms: call again in the first batch that is later than this; may lie in the past
            (checks over the budget). None: nothing is remembered, the row can go.
    """

    page: Page
    outcome: Outcome
    wake_at_ms: int | None


def decide(
    page: Page,
    events: Events,
    now_ms: int,
    rules: Rules,
    check_budget: int = UNLIMITED,
    *,
    asked: Mapping[int, int] | None = None,
    asked_of_group: int = UNLIMITED,
    read_until_ms: int = ALL_READ,
    tell_prepared: bool = False,
    relay: RelayLimits = NO_RELAY,
) -> Decision:
    """Decide about a page's events and about checks, discards and deadlines that are due.

    The same arguments give the same decision; the page given is not changed.

    Args:
        events: records of this page, in any order; may be empty.
        now_ms: the batch's time, milliseconds since 1970; may lie before that of earlier batches.
        check_budget: most check requests of this call, oldest deadline first.
        asked: of these, how many each group has had before (by identity.group_part).
        asked_of_group: how many a group may have.
        read_until_ms: every half and op that the broker stored at this time or before was read, in
            this batch or an earlier one; NOTHING_READ if no such time is known.
        tell_prepared: give Action.PREPARED rows for the halves that became pending.
        relay: the limits of the page's partition.

    Raises:
        UsageError: an event names an offset of another page.
    """
    builder = PageBuilder(
        page, now_ms, rules, read_until_ms=read_until_ms, tell_prepared=tell_prepared, relay=relay
    )
    refuse_waiting_too_early(builder)
    if len(events):
        _pass_refused_on(builder, events.of_kind(EventKind.REFUSED_HALF), Action.REFUSE_HALF)
        take_halves(builder, events.of_kind(EventKind.HALF))
        take_ops(builder, events.of_kind(EventKind.OP))
        _pass_refused_on(builder, events.of_kind(EventKind.REFUSED_OP), Action.REFUSE_OP)
        take_feedback(builder, events.of_kind(EventKind.UNDELIVERED))
    ask_and_discard(builder, check_budget, asked or {}, asked_of_group)
    expire_waiting_ops(builder)
    remember_verdicts(builder)
    forget_verdicts(builder)
    after = builder.page_after()
    return Decision(after, builder.outcome_of(after), _wake_at_ms(after, now_ms, rules))


def _pass_refused_on(builder: PageBuilder, refused: Events, action: Action) -> None:
    """Add the records that decoding refused to the outcome, in their order."""
    if len(refused):
        builder.count_refusals(len(refused))
        refused = refused.take(refused.source_offset >= 0)
        halves = refused if action == Action.REFUSE_HALF else None
        builder.act(action, refused.offset, refused.detail, refused=halves)


def _wake_at_ms(page: Page, now_ms: int, rules: Rules) -> int | None:
    times = []
    if len(page.halves):
        times.append(next_deadline_ms(page.halves, now_ms, rules))
    if len(page.waiting):
        times.append(int(page.waiting.wait_until_ms.min()))
    if len(page.settled.forget_at_ms):
        times.append(int(page.settled.forget_at_ms.min()))
    return min(times) if times else None
