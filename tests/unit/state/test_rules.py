"""The rules by time."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.unit.state.building import RULES

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import CheckpointError
from checkback.state import Rules, RulesHistory
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
