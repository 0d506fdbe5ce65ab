"""A producer makes its group's check topic, also while the brokers elect another controller."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from checkback.client.kafka import own_topics as check_topic
from checkback.client.kafka.own_topics import BYTES_MAX, PASSING, create_check_topic, create_missing
from checkback.protocol.errors import BrokerError
from checkback.protocol.topics import TopicPlan


class Admin:
    """Makes a topic; first it fails like this."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.tries = 0
        self.asked: list[list[str]] = []
        self.is_made = False

    def list_topics(self, topic: str = "", *_: float, **__: float) -> Any:
        error = None if self.is_made else KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        return SimpleNamespace(topics={topic: SimpleNamespace(error=error)})

    def create_topics(self, wanted: list[Any], **_: Any) -> dict[str, Admin]:
        self.tries += 1
        self.asked.append([one.topic for one in wanted])
        return {one.topic: self for one in wanted}

    def result(self, _: float) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.is_made = True


def failure(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


def create(admin: Any, timeout_s: float = 60, limit: int | None = None) -> None:
    facts: Any = SimpleNamespace(admin=admin, ask_limit=lambda _: limit)
    create_check_topic(facts, TopicPlan("checks", 1, {BYTES_MAX: "5000"}), "b:1", timeout_s)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_topic, "AGAIN_S", 0)


@pytest.mark.parametrize("code", sorted(PASSING))
def test_a_controller_that_changes_ends_no_start(code: int) -> None:
    admin = Admin(failure(code), failure(code))

    create(admin)

    assert (admin.is_made, admin.tries) == (True, 3)


def test_only_topics_that_are_still_missing_are_asked_for_again() -> None:
    admin: Any = Admin(failure(KafkaError.NOT_CONTROLLER))

    assert create_missing(admin, [TopicPlan("a", 1), TopicPlan("b", 1)], "b:1", 60) == {"a", "b"}
    assert admin.asked == [["a", "b"], ["a"]]


@pytest.mark.parametrize(("limit", "is_told"), [(4_999, True), (5_000, False), (None, False)])
def test_a_topic_that_takes_too_small_records_is_told(
    limit: int | None, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    admin = Admin()
    admin.is_made = True

    create(admin, limit=limit)

    assert ("takes records of 4999 bytes" in caplog.text) is is_told


def test_a_topic_that_another_process_made_serves() -> None:
    admin = Admin(failure(KafkaError.NOT_CONTROLLER), failure(KafkaError.TOPIC_ALREADY_EXISTS))

    create(admin)

    assert (admin.is_made, admin.tries) == (False, 2)


@pytest.mark.parametrize(
    ("error", "says", "remedy"),
    [
        (failure(KafkaError.TOPIC_AUTHORIZATION_FAILED), "authorization", "ask for the right"),
        (failure(KafkaError.NOT_CONTROLLER), "controller", "brokers are up"),
        (TimeoutError(), "no answer in time", "brokers are up"),
    ],
)
def test_the_remedy_is_that_of_the_cause(error: Exception, says: str, remedy: str) -> None:
    with pytest.raises(BrokerError, match=f"(?i){says}") as refused:
        create(Admin(error), timeout_s=0)
    assert remedy in refused.value.remedy
