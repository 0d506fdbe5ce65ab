"""What a checkpoint is bound to, and which formats a start accepts."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Any

import pytest

from checkback.checkpoints.own_files.identity import FORMAT, CheckpointIdentity
from checkback.protocol.errors import CheckpointError
from checkback.streaming.start.preflight import require_still_bound

NOW = CheckpointIdentity(FORMAT, "app", "cluster", 4_096, 2, "half", "op", "settled", 8, "key")


def test_a_checkpoint_goes_on_with_what_it_was_made_for() -> None:
    read = CheckpointIdentity.from_json(NOW.to_json())

    read.require_same(NOW)

    assert read == NOW


@pytest.mark.parametrize("now", [None, replace(NOW, state_partitions=4)])
def test_a_checkpoint_that_a_tool_changed_during_a_start_is_refused(
    now: CheckpointIdentity | None,
) -> None:
    text = None if now is None else now.to_json()
    store: Any = SimpleNamespace(path="c", read_own=lambda _: text)

    with pytest.raises(CheckpointError, match="changed while the job started"):
        require_still_bound(store, NOW)
    store.read_own = lambda _: NOW.to_json()
    require_still_bound(store, NOW)


def test_a_field_that_was_taken_away_is_passed_over() -> None:
    assert CheckpointIdentity.from_json(json.dumps({**asdict(NOW), "taken_away": 1})) == NOW


def test_half_partitions_that_were_added_are_no_difference() -> None:
    made = CheckpointIdentity.from_json(replace(NOW, half_partitions=4).to_json())

    made.require_same(NOW)

    assert made.half_partitions == 4


@pytest.mark.parametrize(
    "name", ["application_id", "cluster_id", "page_size", "half_topic_id", "order", "format"]
)
def test_a_checkpoint_of_something_else_or_of_a_later_format_is_refused(name: str) -> None:
    with pytest.raises(CheckpointError, match=f"made with {name} 2,"):
        CheckpointIdentity(**{**asdict(NOW), name: 2}).require_same(NOW)


@pytest.mark.parametrize("name", ["half_partitions", "order"])
def test_one_that_lacks_something_is_told_as_unreadable(name: str) -> None:
    torn = asdict(NOW)
    del torn[name]

    with pytest.raises(CheckpointError, match=name):
        CheckpointIdentity.from_json(json.dumps(torn))
