"""What is said of a transaction that the brokers do not end."""

from __future__ import annotations

import pytest

from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka.real_topics import KnownTopic, TopicDirectory
from checkback.sinks.kafka.settings import SinkSettings
from checkback.sinks.kafka.unended import require_endable

SETTINGS = SinkSettings("app", "q", "", {"bootstrap.servers": "none:1"}, 1_000, 1_000)


def test_the_topics_that_keep_it_from_ending_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {
        "timeless": KnownTopic(1, 1, rejects_markers=True),
        "lone": KnownTopic(1, 1, shortage="partition 0 has no leader"),
        "orders": KnownTopic(1, 1),
    }
    monkeypatch.setattr(TopicDirectory, "find_all", lambda _: known)

    with pytest.raises(BrokerError) as raised:
        require_endable(SETTINGS, 3)

    assert "app-q-3" in raised.value.message
    assert "before.max.ms of timeless, then" in raised.value.remedy
    assert "brokers of lone (partition 0 has no leader), or" in raised.value.remedy
    assert "orders" not in raised.value.remedy
    assert raised.value.exit_code == 3


def test_without_such_a_topic_it_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TopicDirectory, "find_all", lambda _: {"orders": KnownTopic(1, 1)})

    require_endable(SETTINGS, 3)


def test_brokers_that_do_not_answer_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: TopicDirectory) -> dict[str, KnownTopic]:
        raise BrokerError("no answer")

    monkeypatch.setattr(TopicDirectory, "find_all", fails)

    require_endable(SETTINGS, 3)
