"""Creating and comparing topics on a real broker."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.programs import checkback

from checkback.deploy.admin import admin_client
from checkback.deploy.topics import create_topics, find_topics
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError


def wanted(bootstrap_servers: str, prefix: str, **more: Any) -> Settings:
    sizes = {"half_partitions": 3, "state_partitions": 2}
    return Settings(bootstrap_servers=bootstrap_servers, topic_prefix=prefix, **{**sizes, **more})


def test_topics_are_created_as_planned_and_then_left_alone(
    bootstrap_servers: str, unique: str
) -> None:
    settings = wanted(bootstrap_servers, unique)

    first = create_topics(settings)
    second = create_topics(settings)

    assert [report.created for report in first] == [True] * 7
    assert [report.created for report in second] == [False] * 7
    assert not any(report.differences for report in first + second)
    names = settings.topics
    with admin_client(bootstrap_servers, {}) as admin:
        found = find_topics(admin, [report.name for report in first])
    partitions = {name: topic.partitions for name, topic in found.items()}
    assert partitions == {
        names.half: 3,
        names.op: 3,
        names.feedback: 3,
        names.discarded: 1,
        names.refused: 1,
        names.settled: 2,
        names.status: 1,
    }
    assert found[names.half].configs["message.timestamp.type"] == "LogAppendTime"
    assert found[names.half].configs["cleanup.policy"] == "delete"
    assert int(found[names.half].configs["retention.ms"]) > settings.half_retention_ms


def test_the_cores_of_this_machine_say_nothing_about_an_existing_settled_topic(
    bootstrap_servers: str, unique: str
) -> None:
    create_topics(wanted(bootstrap_servers, unique, state_partitions=7))

    reports = create_topics(wanted(bootstrap_servers, unique, state_partitions=None))

    assert not any(report.differences for report in reports)


def test_what_kafka_refuses_is_told_in_its_words(bootstrap_servers: str, unique: str) -> None:
    with pytest.raises(BrokerError, match=r"replication factor of 3 cannot be reached"):
        create_topics(wanted(bootstrap_servers, unique, replication_factor=3))


def test_command_says_what_differs_with_exit_code_1(bootstrap_servers: str, unique: str) -> None:
    def run(half_partitions: int) -> tuple[int, dict[str, Any]]:
        arguments = ["--bootstrap-servers", bootstrap_servers, "--topic-prefix", unique]
        arguments += ["--set", f"half_partitions={half_partitions}", "--output", "json"]
        ran = checkback("topics", "create", *arguments)
        return ran.returncode, json.loads(ran.stdout)

    assert run(3)[0] == 0
    assert run(3)[1]["differs"] is False
    code, told = run(4)
    assert (code, told["differs"]) == (1, True)
    differences = [{"name": "partitions", "wanted": "4", "found": "3"}]
    assert [one for one in told["topics"] if one["differences"]] == [
        {"name": name, "created": False, "differences": differences}
        for name in Settings(topic_prefix=unique).topics.read
    ]
    assert run(3)[0] == 0, "nothing was changed"


def test_no_broker_there_is_told_within_seconds() -> None:
    with pytest.raises(BrokerError, match=r"127\.0\.0\.1:9 can't be reached"):
        create_topics(Settings(bootstrap_servers="127.0.0.1:9"))
