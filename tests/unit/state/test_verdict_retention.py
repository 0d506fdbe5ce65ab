"""When a page forgets its verdicts: never too early, and in few steps."""

from __future__ import annotations

import numpy as np
import pytest
from tests.property.paged import events_of
from tests.unit.state.building import COMMIT, RULES, SENT, Story, half, op

from checkback.state import Page, decide
from checkback.state.steps.verdict_retention import RETENTION_STEPS, forget_at_ms

RETENTION_MS = RULES.verdict_retention_ms
STEP_MS = RETENTION_MS // RETENTION_STEPS


@pytest.mark.parametrize("now_ms", [0, 1, STEP_MS - 1, STEP_MS, SENT, SENT + 1])
@pytest.mark.parametrize("retention_ms", [RETENTION_MS, RETENTION_MS + 1])
def test_a_verdict_is_kept_for_its_time_and_at_most_one_step_longer(
    now_ms: int, retention_ms: int
) -> None:
    forget_ms = forget_at_ms(now_ms, retention_ms)

    assert retention_ms <= forget_ms - now_ms < retention_ms + STEP_MS
    assert forget_ms % STEP_MS == 0


def test_verdicts_of_one_step_are_forgotten_together() -> None:
    begin_ms = 7 * STEP_MS + 1

    times = {forget_at_ms(begin_ms + ms, RETENTION_MS) for ms in range(0, STEP_MS, 1_000)}

    assert len(times) == 1


@pytest.mark.parametrize("retention_ms", [0, 1, RETENTION_STEPS - 1])
def test_a_retention_shorter_than_a_step_is_kept_to_the_millisecond(retention_ms: int) -> None:
    assert forget_at_ms(1_000, retention_ms) == 1_000 + retention_ms


def test_a_page_forgets_each_verdict_after_its_own_time() -> None:
    story = Story()
    story.batch(SENT, half(0), half(1), op(0, COMMIT))
    story.batch(SENT + 2 * STEP_MS, op(1, COMMIT, 1))

    first_ms = forget_at_ms(SENT, RETENTION_MS)
    assert story.page.settled.forget_at_ms.tolist() == [first_ms, first_ms + 2 * STEP_MS]
    story.batch(first_ms)
    assert story.page.settled.verdict[:2].tolist() == [1, 1]
    story.batch(first_ms + 1)
    assert story.page.settled.verdict[:2].tolist() == [0, 1]
    assert story.page.settled.forget_at_ms.tolist() == [first_ms + 2 * STEP_MS]


def test_a_page_remembers_one_time_for_the_verdicts_of_one_step() -> None:
    story = Story()
    story.batch(SENT, half(0), half(1), op(0, COMMIT))
    story.batch(SENT, op(1, COMMIT, 1))

    assert story.page.settled.forget_at_ms.tolist() == [forget_at_ms(SENT, RETENTION_MS)]


def test_a_page_forgets_time_after_time_without_being_packed_between() -> None:
    page, times = Page.empty(0, 0, 8), [SENT + step * 2 * STEP_MS for step in range(3)]
    for offset, now_ms in enumerate(times):
        events = events_of([half(offset), op(offset, COMMIT, offset)])
        page = decide(page, events, now_ms, RULES).page
    left = []
    for now_ms in times:
        page = decide(page, events_of([]), forget_at_ms(now_ms, RETENTION_MS) + 1, RULES).page
        left.append(page.settled.verdict[:3].tolist())
        assert page.settled.forget_slot.dtype == np.uint16

    assert left == [[0, 1, 1], [0, 0, 1], [0, 0, 0]]
