"""What a checkpoint is bound to, and which of its formats go on."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from checkback.checkpoints.identity import FORMAT, CheckpointIdentity
from checkback.protocol.errors import CheckpointError
from checkback.streaming.page_keys import PageKeys

NOW = CheckpointIdentity(FORMAT, "app", "cluster", 4_096, 2, "half", "op", "settled", 8)
OLD = {
    "format": 1, "application_id": "app", "cluster_id": "cluster", "page_size": 4_096,
    "state_partitions": 2, "half_topic_id": "half", "op_topic_id": "op",
    "settled_topic_id": "settled",
}  # fmt: skip


def test_a_checkpoint_of_before_goes_on_with_the_keys_that_its_pages_have() -> None:
    old = CheckpointIdentity.from_json(json.dumps(OLD))

    old.require_same(NOW)

    assert old.page_keys == PageKeys(None)
    assert CheckpointIdentity.from_json(old.to_json()) == old


def test_keys_stay_when_half_partitions_are_added() -> None:
    made = CheckpointIdentity.from_json(replace(NOW, half_partitions=4).to_json())

    made.require_same(NOW)

    assert made.page_keys == PageKeys(4)


@pytest.mark.parametrize("name", ["application_id", "cluster_id", "page_size", "half_topic_id"])
def test_a_checkpoint_of_something_else_is_refused(name: str) -> None:
    with pytest.raises(CheckpointError, match=name):
        CheckpointIdentity(**{**asdict(NOW), name: "other"}).require_same(NOW)


def test_a_later_format_is_refused() -> None:
    with pytest.raises(CheckpointError, match="format 3"):
        replace(NOW, format=3).require_same(NOW)


def test_a_format_that_should_name_its_half_partitions_is_torn_without() -> None:
    with pytest.raises(CheckpointError, match="half_partitions"):
        CheckpointIdentity.from_json(json.dumps({**OLD, "format": 2}))
