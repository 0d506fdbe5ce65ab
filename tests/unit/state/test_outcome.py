"""What the sink needs of an outcome to look a half up."""

from __future__ import annotations

from dataclasses import replace

from tests.property.paged import events_of
from tests.unit.state.building import (
    COMMIT,
    DUE,
    ROLLBACK,
    RULES,
    SENT,
    Story,
    direct_half,
    half,
    op,
)

from checkback.state import Action
from checkback.state.outcome import REST_UNKNOWN

UNKNOWN_HALF = (0, REST_UNKNOWN)


def words_of(transaction: int) -> tuple[int, int]:
    """Both words of the identity of a half of that transaction."""
    found = events_of([half(0, transaction=transaction)])
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
    story.batch(SENT, *(half(at, transaction=5 + at) for at in range(3)), direct_half(3))
    story.batch(
        SENT,
        *(op(0, COMMIT, 0, transaction=5), op(1, ROLLBACK, 1, transaction=6)),
        op(2, COMMIT, 2, transaction=9),
    )
    assert identities(story) == {
        Action.COMMIT: words_of(5),
        Action.ROLLBACK: words_of(6),
        Action.REFUSE_OP: UNKNOWN_HALF,
    }
    plain, direct = words_of(7), words_of(1)
    story.batch(DUE)
    assert identities(story) == {Action.CHECK: plain, Action.CHECK_DIRECT: direct}
    story.batch(DUE + RULES.check_interval_ms + 1)
    assert identities(story) == {Action.DISCARD_CHECK_LIMIT: plain, Action.FENCE: direct}


def test_so_does_the_discard_of_a_half_that_is_too_old() -> None:
    story = Story()
    story.batch(SENT, half(0, transaction=5))
    story.batch(SENT + RULES.half_retention_ms + 1)

    assert identities(story) == {Action.DISCARD_EXPIRED: words_of(5)}
