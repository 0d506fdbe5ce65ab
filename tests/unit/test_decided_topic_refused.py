"""A start refuses a decided topic that is not the one that its checkpoint has read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from checkback.checkpoints.own_files.decided_topic import KnownDecidedTopic
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import (
    BrokerError,
    CheckbackError,
    CheckpointError,
    ConfigurationError,
)
from checkback.sinks.kafka.cluster.described_topics import DescribedTopic
from checkback.streaming.relay import decided_topic, switch
from checkback.streaming.relay.decided_topic import DecidedTopic
from checkback.streaming.relay.switch import RelaySwitch

SETTINGS = Settings(bootstrap_servers="localhost:1", relay=True)
NAMES = SETTINGS.topics


@pytest.mark.parametrize(
    ("partitions", "topic_id", "refused", "says"),
    [
        (4, "other", CheckpointError, "deleted and made again"),
        (3, "known", ConfigurationError, "they must be equal"),
    ],
)
def test_a_topic_that_was_made_again_or_has_other_partitions_is_refused(
    monkeypatch: pytest.MonkeyPatch,
    partitions: int,
    topic_id: str,
    refused: type[CheckbackError],
    says: str,
) -> None:
    half = SimpleNamespace(partitions=4, topic_id="half")
    found = {
        NAMES.half: half,
        NAMES.decided: SimpleNamespace(partitions=partitions, topic_id=topic_id),
    }
    monkeypatch.setattr(switch, "describe_topics", lambda *_: found)
    store: Any = SimpleNamespace(read_own=lambda _: KnownDecidedTopic("known").to_json())
    unused: Any = None

    with pytest.raises(refused, match=says):
        RelaySwitch(SETTINGS, store, unused, unused, unused)._bind_decided_topic()


@pytest.mark.parametrize("was_read", [True, False])
def test_a_topic_that_is_gone_is_refused_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, *, was_read: bool
) -> None:
    def describe(*_: object) -> None:
        raise BrokerError("Missing topics.", remedy="Create them.", missing=[NAMES.decided])

    monkeypatch.setattr(switch, "describe_topics", describe)
    known = KnownDecidedTopic("known").to_json() if was_read else None
    store: Any = SimpleNamespace(read_own=lambda _: known)
    unused: Any = None

    with pytest.raises(CheckpointError if was_read else BrokerError) as seen:
        RelaySwitch(SETTINGS, store, unused, unused, unused)._bind_decided_topic()
    assert ("topics create --set relay=true" in seen.value.remedy) == was_read


def test_a_topic_that_ends_before_what_was_read_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    producer = SimpleNamespace(init_transactions=lambda _: None)
    monkeypatch.setattr(decided_topic, "Producer", lambda _: producer)
    described = {SETTINGS.topics.op: DescribedTopic("id", 2)}
    monkeypatch.setattr(decided_topic, "describe_topics", lambda *_: described)
    monkeypatch.setattr(DecidedTopic, "_ends", lambda *_: {0: 3, 1: 9})
    topic = DecidedTopic(SETTINGS, SETTINGS.connection(), 2)

    with pytest.raises(CheckpointError, match=r"Partitions \[0\] .* checkpoint has read") as seen:
        topic.notes({}, {0: 4, 1: 9})
    assert "checkpoint rebuild" in seen.value.remedy
