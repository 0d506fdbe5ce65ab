"""The settings that decide, as a checkpoint stores them."""

from __future__ import annotations

from dataclasses import Field, asdict, fields, replace
from typing import Any

import pytest
from tests.property.model import Record
from tests.property.paged import events_of
from tests.unit.state.building import COMMIT, DUE, RULES, half, op

from checkback.protocol.configuration import Settings
from checkback.state import Action, Page, Rules, decide
from checkback.state.engine import Decision


def test_rules_are_the_settings_of_the_same_names() -> None:
    rules = Rules.from_settings(Settings(check_max=4, check_enabled=False))
    assert (rules.check_max, rules.check_enabled) == (4, False)
    assert (rules.transaction_timeout_ms, rules.check_interval_ms) == (6_000, 60_000)


def test_stored_rules_lack_none_and_pass_over_those_that_were_taken_away() -> None:
    stored = asdict(RULES)

    assert Rules.from_stored({**stored, "taken_away": 7}) == RULES
    del stored["checks_per_batch_max"]
    with pytest.raises(TypeError):
        Rules.from_stored(stored)


def test_the_largest_times_that_can_be_set_are_those_that_no_half_reaches() -> None:
    times = {one.name: one.metadata["most"] for one in fields(Settings) if _is_of_rules(one)}
    slow = Rules.from_settings(Settings(**times))
    read_ms = DUE + 60_000

    def decided(page: Page, *records: Record) -> Decision:
        decision = decide(page, events_of(list(records)), read_ms + 1, slow, read_until_ms=read_ms)
        assert decision.wake_at_ms is None or decision.wake_at_ms > read_ms
        return replace(decision, page=Page.unpack(decision.page.pack()))

    early = decided(Page.empty(0, 0, 16), op(3, COMMIT))
    asked = decided(early.page, half(4), half(5))
    done = decided(asked.page, half(3), op(4, COMMIT, 1))

    assert (len(early.page.waiting), len(asked.outcome.action)) == (1, 0)
    assert done.outcome.action.tolist() == [Action.COMMIT, Action.COMMIT]
    assert done.outcome.offset.tolist() == [3, 4]


def _is_of_rules(one: Field[Any]) -> bool:
    return one.name.endswith("_ms") and one.name in {rule.name for rule in fields(Rules)}
