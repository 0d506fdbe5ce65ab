"""Topics are made although the controller moves, and found although a broker lags behind."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.errors import UnknownTopicOrPartitionError

from checkback.deploy import topics
from checkback.deploy.topics import (
    NOT_CONTROLLER,
    PASSING,
    TOPIC_ALREADY_EXISTS,
    UNKNOWN_TOPIC,
    create_missing,
    find_all,
    plans_for,
)
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError
from checkback.protocol.topics import TopicPlan

PLANS = [TopicPlan("a", 1), TopicPlan("b", 1)]


class Admin:
    """Creates topics; first these codes are answered for b. It knows them after some looks."""

    def __init__(self, *codes: int, lag: int = 0, raised: Exception | None = None) -> None:
        self.codes, self.lag, self.raised = list(codes), lag, raised
        self.asked: list[list[str]] = []

    def create_topics(self, wanted: dict[str, Any], *, raise_errors: bool) -> dict[str, Any]:
        assert not raise_errors
        self.asked.append(list(wanted))
        if self.raised is not None:
            raised, self.raised = self.raised, None
            raise raised
        codes = {name: self.codes.pop(0) if name == "b" and self.codes else 0 for name in wanted}
        return {
            "topics": [
                {"name": name, "error_code": code, "error_message": "no"}
                for name, code in codes.items()
            ]
        }

    def wait_for_topics(self, names: list[str]) -> None: ...

    def describe_topics(self, names: list[str]) -> list[dict[str, Any]]:
        self.lag -= 1
        code = UNKNOWN_TOPIC if self.lag >= 0 else 0
        return [
            {"name": name, "error_code": code if name == "b" else 0, "partitions": []}
            for name in names
        ]

    def describe_configs(self, resources: list[Any], **_: Any) -> dict[str, Any]:
        if self.raised is not None:
            raised, self.raised = self.raised, None
            raise raised
        return {"topic": {one.name: {} for one in resources}}


def no_pause(_: float) -> None: ...


@pytest.mark.parametrize("code", sorted(PASSING))
def test_a_topic_is_asked_for_again_while_another_controller_is_elected(code: int) -> None:
    admin = Admin(code, code)

    assert create_missing(admin, PLANS, no_pause) == {"a", "b"}
    assert admin.asked == [["a", "b"], ["b"], ["b"]]


def test_a_client_that_finds_no_controller_is_no_defect() -> None:
    admin = Admin(raised=RuntimeError("Failed to find active controller id!"))

    assert create_missing(admin, PLANS, no_pause) == {"a", "b"}


def test_what_another_process_made_meanwhile_is_not_ours() -> None:
    assert create_missing(Admin(TOPIC_ALREADY_EXISTS), PLANS, no_pause) == {"a"}


def test_the_remedy_is_that_of_the_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "RETRY_S", 0)
    remedies = {}
    for code in (NOT_CONTROLLER, 38):
        with pytest.raises(BrokerError, match="refused to create the topic b") as refused:
            create_missing(Admin(code), PLANS, no_pause)
        remedies[code] = refused.value.remedy

    assert "brokers are up" in remedies[NOT_CONTROLLER]
    assert "setting" in remedies[38]


def test_topics_that_are_made_are_looked_for_until_the_broker_knows_them() -> None:
    lagging = Admin(lag=2, raised=UnknownTopicOrPartitionError())

    assert set(find_all(lagging, ["a", "b"], no_pause)) == {"a", "b"}


def test_a_topic_that_no_broker_hears_of_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "RETRY_S", 0)

    with pytest.raises(BrokerError, match="do not know b yet"):
        find_all(Admin(lag=9), ["a", "b"], no_pause)


@pytest.mark.parametrize(
    ("keep_compression", "stored"), [(False, "uncompressed"), (True, "producer")]
)
def test_topics_that_producers_write_keep_compressed_batches_only_where_asked(
    keep_compression: bool, stored: str
) -> None:
    settings = Settings(keep_compression=keep_compression)

    plans = {plan.name: plan.configs.get("compression.type") for plan in plans_for(settings)}

    assert {name for name, found in plans.items() if found == stored} == {*settings.topics.read}
    assert set(plans.values()) == {stored, None}
