"""Whoever may read a topic needs no right on a group: what a consumer says of its group passes.

librdkafka wants the name of a group from every consumer and asks the brokers for it, also where the
reader assigns itself the partitions and commits nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message

from checkback.operations.topics import scanner as scanning
from checkback.protocol.errors import BrokerError, ConfigurationError
from checkback.streaming.access import rule_source
from checkback.testing import topics

NO_GROUP = KafkaError.GROUP_AUTHORIZATION_FAILED
NO_TOPIC = KafkaError.TOPIC_AUTHORIZATION_FAILED


def told(error: int | None = None) -> Message:
    make: Any = Message  # the stubs are older than its constructor
    failure = None if error is None else KafkaError(error)
    made: Message = make(
        topic="t", partition=0, offset=0, value=b"accounts: []", headers=[], error=failure,
        timestamp=(1, 1),
    )  # fmt: skip
    return made


class Scripted:
    """A consumer of one partition with one record, before which it tells an error."""

    def __init__(self, error: int) -> None:
        self.left = [told(error), told(), told(KafkaError._PARTITION_EOF)]

    def poll(self, _: float) -> Message | None:
        return self.left.pop(0) if self.left else None

    def consume(self, *_: object) -> list[Message]:
        return [self.left.pop(0)] if self.left else []

    def list_topics(self, *_: object, **__: object) -> Any:
        topic = SimpleNamespace(error=None, partitions={0: None})
        return SimpleNamespace(topics={"t": topic})

    def get_watermark_offsets(self, *_: object) -> tuple[int, int]:
        return 0, 1

    def assign(self, *_: object) -> None: ...
    def close(self) -> None: ...


def scanned() -> list[bytes | None]:
    with scanning.TopicScanner({}) as scanner:
        return [one.value for one in scanner.scan("t")]


def rules() -> list[bytes | None]:
    source = rule_source.TopicRules("t", {})
    source.rules()
    return [source.content()]


def read() -> list[bytes | None]:
    return [one.value() for one in topics.read_topic({}, "t")]


@pytest.fixture(params=[scanned, rules, read], ids=lambda reader: reader.__name__)
def reader(request: pytest.FixtureRequest) -> Callable[[], list[bytes | None]]:
    found: Callable[[], list[bytes | None]] = request.param
    return found


def telling(patch: pytest.MonkeyPatch, error: int) -> None:
    for module in (scanning, rule_source, topics):
        patch.setattr(module, "Consumer", lambda _: Scripted(error))


def test_a_group_that_is_forbidden_keeps_nobody_from_reading(
    reader: Callable[[], list[bytes | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    telling(monkeypatch, NO_GROUP)

    assert reader() == [b"accounts: []"]


def test_a_topic_that_is_forbidden_is_not_taken_for_an_empty_one(
    reader: Callable[[], list[bytes | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    telling(monkeypatch, NO_TOPIC)

    with pytest.raises((BrokerError, ConfigurationError), match="failed"):
        reader()
