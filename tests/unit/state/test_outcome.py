"""What the sink needs of an outcome to look a half up."""

from __future__ import annotations

from dataclasses import fields, replace

from tests.property.model import Record
from tests.property.paged import acts_of, events_of
from tests.unit.state.building import COMMIT, DUE, ROLLBACK, RULES, SENT, Act, Story, half, op

from checkback.state import Action, Page, decide
from checkback.state.formats.outcome import REST_UNKNOWN

UNKNOWN_HALF = (0, REST_UNKNOWN)


GROUP = 2**14 + 1
"""Its identities need all bits of an integer: a floating point number would round them."""


def halves(*transactions: int) -> list[Record]:
    return [
        half(at, transaction=transaction)._replace(group=GROUP)
        for at, transaction in enumerate(transactions)
    ]


def words_of(transaction: int) -> tuple[int, int]:
    """Both words of the identity of a half of that transaction."""
    found = events_of(halves(transaction))
    return int(found.identity[0]), int(found.identity_rest[0])


def identities(story: Story) -> dict[Action, tuple[int, int]]:
    """Both words of the identity that each row of the last batch has."""
    found = story.outcome
    assert found.identity is not None
    assert found.identity_rest is not None
    words = zip(found.identity.tolist(), found.identity_rest.tolist(), strict=True)
    return dict(zip(map(Action, found.action.tolist()), words, strict=True))


def test_whatever_is_done_about_a_half_says_which_half_it_is() -> None:
    """By the offset alone, the sink would take another record there for the half."""
    story = Story(replace(RULES, check_max=1))
    story.batch(SENT, *halves(5, 6, 7))
    story.batch(
        SENT,
        op(0, COMMIT, 0, group=GROUP, transaction=5),
        op(1, ROLLBACK, 1, group=GROUP, transaction=6),
        op(2, COMMIT, 2, group=GROUP, transaction=9),
    )
    assert identities(story) == {
        Action.COMMIT: words_of(5),
        Action.ROLLBACK: words_of(6),
        Action.REFUSE_OP: UNKNOWN_HALF,
    }
    story.batch(DUE)
    assert identities(story) == {Action.CHECK: words_of(7)}
    story.batch(DUE + RULES.check_interval_ms + 1)
    assert identities(story) == {Action.DISCARD_CHECK_LIMIT: words_of(7)}


def test_so_does_the_discard_of_a_half_that_is_too_old() -> None:
    story = Story()
    story.batch(SENT, *halves(5))
    story.batch(SENT + RULES.half_retention_ms + 1)

    assert identities(story) == {Action.DISCARD_EXPIRED: words_of(5)}


def test_a_half_that_became_pending_is_told_to_whoever_keeps_a_ledger() -> None:
    new = events_of([half(0), half(0), half(1)])

    told, untold = (
        acts_of(decide(Page.empty(0, 0, 8), new, SENT, RULES, tell_prepared=told).outcome)
        for told in (True, False)
    )

    assert told == [Act(Action.PREPARED, 0, 0, 0), Act(Action.PREPARED, 1, 0, 1)]
    assert untold == []


def test_every_column_has_its_type_with_rows_and_without() -> None:
    columns = {"action": "u1", "offset": "i8", "detail": "i4", "source_offset": "i8"}
    columns |= {"identity": "i8", "identity_rest": "i8", "counters": "i8", "finished": "i8"}
    for events in (events_of([]), events_of([half(0), half(1), op(0, COMMIT), op(0, ROLLBACK, 1)])):
        decision = decide(Page.empty(0, 0, 8), events, SENT, RULES)
        outcome, pending = decision.outcome, decision.page.halves
        assert {getattr(pending, one.name).dtype.str for one in fields(pending)} == {"<i8"}
        assert {name: getattr(outcome, name).dtype.str[1:] for name in columns} == columns
