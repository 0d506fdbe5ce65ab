"""What is said of a transaction that the brokers do not end, and what is waited for."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError, KafkaException
from kafka import KafkaAdminClient

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError, FencedError
from checkback.sinks.kafka.cluster.topic_directory import KnownTopic, TopicDirectory
from checkback.sinks.kafka.transaction import hanging as unended
from checkback.sinks.kafka.transaction.hanging import (
    ShortTopic,
    initialise_once_ended,
    require_endable,
    short_topics,
    topics_not_ended,
)
from checkback.sinks.settings import SinkSettings

SETTINGS = SinkSettings(Settings(), "q", {"bootstrap.servers": "none:1"}, 1_000)
TIMELESS = KnownTopic(1, 1, transaction_end_bounds=("message.timestamp.before.max.ms",))
LONE = KnownTopic(1, 1, shortage="partition 0 has no leader")
SHORT = ShortTopic("lone", "partition 0 has no leader")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets what the brokers tell: their topics, and those that a transaction waits for."""

    def tell(awaited: set[str] | None, **known: KnownTopic) -> None:
        monkeypatch.setattr(unended, "topics_not_ended", lambda *_: awaited)
        monkeypatch.setattr(TopicDirectory, "find_all", lambda _: known)
        monkeypatch.setattr(unended, "AdminClient", lambda _: None)

    return tell


class Blocked:
    """A producer that can't be initialised before the brokers have ended a transaction."""

    def __init__(self, tries: int, code: int = KafkaError.CONCURRENT_TRANSACTIONS) -> None:
        self.left, self._code = tries, code

    def list_topics(self, *_: object) -> None:
        pass

    def init_transactions(self, _: float) -> None:
        self.left -= 1
        if self.left >= 0:
            raise KafkaException(KafkaError(self._code))


def initialise(producer: Any, look: Callable[[], object] = lambda: None) -> None:
    initialise_once_ended(producer, SETTINGS, 3, 0.1, look)


def test_a_topic_whose_bound_keeps_a_transaction_open_ends_the_job_and_is_named(
    told: Callable[..., None],
) -> None:
    told({"timeless", "lone", "orders"}, timeless=TIMELESS, lone=LONE, orders=KnownTopic(1, 1))

    with pytest.raises(BrokerError) as raised:
        initialise(Blocked(1))

    assert "checkback-q-3" in raised.value.message
    assert "before.max.ms of timeless, then" in raised.value.remedy
    assert "brokers of lone (partition 0 has no leader), or" in raised.value.remedy
    assert "orders" not in raised.value.remedy
    assert raised.value.exit_code == 3


def test_lost_replicas_are_waited_for_however_long_it_takes(
    told: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    told({"lone"}, lone=LONE, timeless=TIMELESS)
    lines: list[logging.LogRecord] = []
    logger = logging.getLogger("checkback.sinks.kafka.transaction.hanging")
    monkeypatch.setattr(logger, "isEnabledFor", lambda _: True)
    monkeypatch.setattr(logger, "handle", lines.append)
    producer = Blocked(500)

    initialise(producer)

    assert producer.left == -1
    assert len(lines) == 500
    said = lines[0].getMessage()
    assert "State partition 3 waits" in said
    assert "lone (partition 0 has no leader), or lower min.insync.replicas there" in said


def test_brokers_that_do_not_tell_what_they_wait_for_are_believed_to_lack_replicas_first(
    told: Callable[..., None],
) -> None:
    told(None, lone=LONE, timeless=TIMELESS)
    assert require_endable(SETTINGS, 3) == [SHORT]

    told(None, timeless=TIMELESS)
    with pytest.raises(BrokerError):
        require_endable(SETTINGS, 3)


@pytest.mark.parametrize("awaited", [None, set[str](), {"orders"}])
def test_without_such_a_topic_the_producer_fails_as_ever(
    awaited: set[str] | None, told: Callable[..., None]
) -> None:
    told(awaited, orders=KnownTopic(1, 1), **({} if awaited is None else {"lone": LONE}))

    with pytest.raises(KafkaException):
        initialise(Blocked(1))


def test_another_failure_is_not_waited_for(told: Callable[..., None]) -> None:
    told({"lone"}, lone=LONE)

    with pytest.raises(KafkaException):
        initialise(Blocked(1, KafkaError._FENCED))


def test_a_job_that_was_superseded_ends_while_it_waits(told: Callable[..., None]) -> None:
    told({"lone"}, lone=LONE)
    looks = iter([BrokerError("silent"), FencedError("a younger job")])

    def look() -> None:
        raise next(looks)

    producer = Blocked(500)
    with pytest.raises(FencedError):
        initialise(producer, look)

    assert producer.left == 498


def test_brokers_that_do_not_answer_name_nothing(
    told: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: TopicDirectory) -> dict[str, KnownTopic]:
        raise BrokerError("no answer")

    told({"lone"})
    monkeypatch.setattr(TopicDirectory, "find_all", fails)

    assert require_endable(SETTINGS, 3) == []
    assert short_topics(SETTINGS, 4) == []


def test_the_driver_names_only_what_a_transaction_waits_for(told: Callable[..., None]) -> None:
    known = {"lone": LONE, "other": LONE, "timeless": TIMELESS}

    told({"lone", "timeless"}, **known)
    assert short_topics(SETTINGS, 4) == [SHORT]
    for nothing in (None, set[str]()):
        told(nothing, **known)
        assert short_topics(SETTINGS, 4) == []


class Place(NamedTuple):
    """A partition of a transaction."""

    topic: str


def described(monkeypatch: pytest.MonkeyPatch, *states: tuple[str, set[str]]) -> None:
    """Have the brokers describe a transaction for each of these."""
    found = {
        f"{number}": SimpleNamespace(
            state=SimpleNamespace(value=state), topic_partitions={Place(one) for one in topics}
        )
        for number, (state, topics) in enumerate(states)
    }
    monkeypatch.setattr(KafkaAdminClient, "__init__", lambda *_, **__: None)
    monkeypatch.setattr(KafkaAdminClient, "close", lambda _: None)
    monkeypatch.setattr(KafkaAdminClient, "describe_transactions", lambda *_: found)


def test_what_is_decided_and_not_ended_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    described(
        monkeypatch,
        ("PrepareCommit", {"lone"}),
        ("PrepareAbort", {"narrow", "lone"}),
        ("Ongoing", {"orders"}),
        ("CompleteCommit", set()),
    )

    assert topics_not_ended(SETTINGS.connection, ["0", "1", "2", "3"]) == {"lone", "narrow"}


def test_topics_that_are_hidden_from_us_are_not_taken_for_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    described(monkeypatch, ("PrepareCommit", set()))

    assert topics_not_ended(SETTINGS.connection, ["0"]) is None
