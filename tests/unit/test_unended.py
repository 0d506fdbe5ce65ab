"""What is said of a transaction that the brokers do not end."""

from __future__ import annotations

import pytest

from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka.real_topics import TopicDirectory
from checkback.sinks.kafka.settings import SinkSettings
from checkback.sinks.kafka.unended import require_endable

SETTINGS = SinkSettings("app", "q", "", {"bootstrap.servers": "none:1"}, 1_000, 1_000)


def test_the_topics_that_keep_it_from_ending_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TopicDirectory, "all_rejecting_markers", lambda _: ["timeless"])

    with pytest.raises(BrokerError) as raised:
        require_endable(SETTINGS, 3)

    assert "app-q-3" in raised.value.message
    assert "timeless" in raised.value.remedy
    assert raised.value.exit_code == 3


def test_without_such_a_topic_it_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TopicDirectory, "all_rejecting_markers", lambda _: [])

    require_endable(SETTINGS, 3)


def test_brokers_that_do_not_answer_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: TopicDirectory) -> list[str]:
        raise BrokerError("no answer")

    monkeypatch.setattr(TopicDirectory, "all_rejecting_markers", fails)

    require_endable(SETTINGS, 3)
