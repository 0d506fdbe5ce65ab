"""The rules by time."""

from __future__ import annotations

import json
from dataclasses import Field, fields, replace
from typing import Any

import pytest
from tests.property.model import Record
from tests.property.paged import events_of
from tests.unit.state.building import COMMIT, DUE, RULES, half, op

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import CheckpointError
from checkback.state import Action, Page, Rules, RulesHistory, decide
from checkback.state.engine import Decision
from checkback.state.rules import HISTORY_ENTRIES_MAX

OTHER = replace(RULES, check_max=9)


def test_rules_are_the_settings_of_the_same_names() -> None:
    rules = Rules.from_settings(Settings(check_max=4, check_enabled=False))
    assert (rules.check_max, rules.check_enabled) == (4, False)
    assert (rules.transaction_timeout_ms, rules.check_interval_ms) == (6_000, 60_000)


def test_a_batch_is_decided_by_the_rules_of_its_own_time() -> None:
    history = RulesHistory(()).with_rules(1_000, RULES).with_rules(2_000, OTHER)
    assert [history.at(now) for now in (0, 1_000, 1_999)] == [RULES] * 3
    assert [history.at(now) for now in (2_000, 9_000)] == [OTHER] * 2


def test_the_same_rules_again_change_nothing() -> None:
    history = RulesHistory(()).with_rules(1_000, RULES)
    assert history.with_rules(2_000, replace(RULES)) is history


def test_a_clock_set_back_changes_no_earlier_rules() -> None:
    history = RulesHistory(()).with_rules(1_000, RULES).with_rules(500, OTHER)
    assert history.entries == ((1_000, RULES), (1_001, OTHER))
    assert history.at(1_000) == RULES


def test_only_so_many_are_kept() -> None:
    history = RulesHistory(())
    for number in range(HISTORY_ENTRIES_MAX + 5):
        history = history.with_rules(number, replace(RULES, check_max=number + 1))
    assert len(history.entries) == HISTORY_ENTRIES_MAX
    assert history.entries[-1][0] == HISTORY_ENTRIES_MAX + 4


def test_no_rules_at_all_is_an_error() -> None:
    with pytest.raises(CheckpointError, match="No rules"):
        RulesHistory(()).at(0)


def test_json_keeps_the_history() -> None:
    history = RulesHistory(()).with_rules(1_000, RULES).with_rules(2_000, OTHER)
    assert RulesHistory.from_json(history.to_json()) == history


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1, "entries": [{"from_ms": 1}]}'])
def test_rules_that_cannot_be_read_are_an_error(text: str) -> None:
    with pytest.raises(CheckpointError, match="can't be read"):
        RulesHistory.from_json(text)


def test_rules_of_another_version_are_an_error_that_says_so() -> None:
    document = json.loads(RulesHistory(()).to_json())
    with pytest.raises(CheckpointError, match=r"version 2.*Run the version that wrote it"):
        RulesHistory.from_json(json.dumps({**document, "version": 2}))


def test_rules_without_one_of_them_are_an_error() -> None:
    document = json.loads(RulesHistory(()).with_rules(1_000, RULES).to_json())
    del document["entries"][0]["rules"]["checks_per_batch_max"]

    with pytest.raises(CheckpointError, match="can't be read"):
        RulesHistory.from_json(json.dumps(document))


def test_a_rule_that_was_taken_away_is_passed_over() -> None:
    """It made every checkpoint that had it unreadable."""
    history = RulesHistory(()).with_rules(1_000, RULES)
    document = json.loads(history.to_json())
    document["entries"][0]["rules"]["taken_away"] = 7

    assert RulesHistory.from_json(json.dumps(document)) == history


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
