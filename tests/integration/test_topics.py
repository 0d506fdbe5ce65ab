"""Creating and comparing topics on a real broker."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from tests.integration.guarded import ADMIN, guarded_broker, java_client_gets_in, login

from checkback.deploy.admin import admin_client
from checkback.deploy.topics import TopicDifference, create_topics, find_topics
from checkback.protocol.configuration import Settings
from checkback.protocol.connection import confluent_settings
from checkback.protocol.errors import BrokerError

CHECKBACK = str(Path(sys.executable).with_name("checkback"))


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


def test_what_differs_is_said_and_not_changed(bootstrap_servers: str, unique: str) -> None:
    first, other = (wanted(bootstrap_servers, unique, half_partitions=count) for count in (3, 5))
    create_topics(first)

    reports = {report.name: report for report in create_topics(other)}

    expected = (TopicDifference("partitions", wanted="5", found="3"),)
    assert reports[first.topics.half].differences == expected
    assert reports[first.topics.op].differences == expected
    assert not reports[first.topics.settled].differences
    assert not any(report.differences for report in create_topics(first))


def test_a_missing_topic_is_added_to_those_that_exist(bootstrap_servers: str, unique: str) -> None:
    settings = wanted(bootstrap_servers, unique)
    with admin_client(bootstrap_servers, {}) as admin:
        admin.create_topics({settings.topics.half: {"num_partitions": 3}}, wait_for_metadata=True)

    reports = {report.name: report for report in create_topics(settings)}

    half = reports.pop(settings.topics.half)
    assert not half.created
    assert "retention.ms" in {one.name for one in half.differences}
    assert all(report.created for report in reports.values())


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
        command = [CHECKBACK, "topics", "create", "--output", "json", *arguments]
        ran = subprocess.run(
            [*command, "--set", f"half_partitions={half_partitions}"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return ran.returncode, json.loads(ran.stdout)

    assert run(3)[0] == 0
    assert run(3)[1]["differs"] is False
    code, told = run(4)
    assert (code, told["differs"]) == (1, True)
    assert told["topics"][0] == {
        "name": f"{unique}RMQ_SYS_TRANS_HALF_TOPIC",
        "created": False,
        "differences": [{"name": "partitions", "wanted": "4", "found": "3"}],
    }


@pytest.fixture(scope="module")
def secured_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker whose clients must log in; where it is."""
    with guarded_broker(tmp_path_factory.mktemp("secured")) as running:
        yield running.bootstrap_servers


def test_a_secured_broker_takes_the_right_password(secured_broker: str) -> None:
    settings = wanted(secured_broker, "", kafka=login(ADMIN))

    assert all(report.created for report in create_topics(settings))


def test_wrong_password_is_told_as_such_and_never_shown(secured_broker: str) -> None:
    wrong = {**login(ADMIN), "sasl.password": "a-wrong-word"}

    with pytest.raises(BrokerError, match="refused the user name or the password") as refused:
        create_topics(wanted(secured_broker, "", kafka=wrong))

    assert "a-wrong-word" not in repr(refused.value)
    assert refused.value.__cause__ is None


def test_librdkafka_gets_in_with_the_same_settings(secured_broker: str) -> None:
    admin = AdminClient(dict(confluent_settings(secured_broker, login(ADMIN))))

    assert len(admin.list_topics(timeout=20).brokers) == 1


def test_a_java_client_gets_in_with_the_same_settings(secured_broker: str, tmp_path: Path) -> None:
    java_client_gets_in(secured_broker, login(ADMIN), tmp_path)


def test_no_broker_there_is_told_within_seconds() -> None:
    with pytest.raises(BrokerError, match=r"127\.0\.0\.1:9 can't be reached"):
        create_topics(Settings(bootstrap_servers="127.0.0.1:9"))
