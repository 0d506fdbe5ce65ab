"""The rules of access control come from a Kafka topic: checkback.sinks.kafka.read.rule_source."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.running import Topics, wait_until

from checkback.commands.shared.app import NOUNS, LazyGroup, execute
from checkback.deploy.admin import admin_client
from checkback.deploy.topics import find_topics
from checkback.operations.topics.append import publish_rules
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import ConfigurationError
from checkback.sinks.kafka.read.rule_source import TopicRules, rule_source
from checkback.streaming.access.rules_in_force import AccessWatch
from checkback.testing.topics import delete_topics

RULES = "accounts:\n- {accessKey: orders-service, secretKey: secret-of-orders}\n"
PATIENCE_S = 30.0


@pytest.fixture
def settings(bootstrap_servers: str, unique: str) -> Settings:
    return Settings(bootstrap_servers=bootstrap_servers, acl_file=f"kafka:{unique}rules")


@pytest.fixture
def source(settings: Settings) -> Iterator[TopicRules]:
    found = rule_source(settings)
    assert isinstance(found, TopicRules)
    yield found
    found.close()


def topic(settings: Settings) -> str:
    return settings.acl_file.removeprefix("kafka:")


def test_the_newest_record_is_in_force_within_a_look(
    settings: Settings, source: TopicRules
) -> None:
    publish_rules(settings, topic(settings), b"accounts: []")
    publish_rules(settings, topic(settings), RULES.encode())
    now_s = [0.0]
    watch = AccessWatch(source, lambda: now_s[0])
    watch.read()
    assert watch.rules is not None
    assert list(watch.rules.accounts) == ["orders-service"]

    def look() -> bool:
        now_s[0] += 2
        return watch.take_new_rules()

    assert not look()
    publish_rules(settings, topic(settings), RULES.replace("orders", "stock").encode())
    wait_until(look, PATIENCE_S, "the new rules")
    assert list(watch.rules.accounts) == ["stock-service"]
    publish_rules(settings, topic(settings), b"accounts: [")
    wait_until(lambda: look() or watch.problem, PATIENCE_S, "the broken rules")
    assert f"kafka:{topic(settings)} has a mistake" in watch.problem
    assert list(watch.rules.accounts) == ["stock-service"]


def test_rules_on_a_topic_that_was_made_again_are_found(
    settings: Settings, source: TopicRules
) -> None:
    for _ in range(3):
        publish_rules(settings, topic(settings), RULES.encode())
    assert list(source.rules().accounts) == ["orders-service"]
    delete_topics(settings, [topic(settings)])
    with admin_client(settings.bootstrap_servers, settings.kafka) as admin:
        wait_until(lambda: not find_topics(admin, [topic(settings)]), PATIENCE_S, "the deletion")
    publish_rules(settings, topic(settings), b"accounts: []")

    wait_until(lambda: source.content() == b"accounts: []", PATIENCE_S, "the new rules")
    assert not source.rules().accounts


def test_without_rules_nothing_starts(
    settings: Settings, source: TopicRules, bootstrap_servers: str
) -> None:
    with pytest.raises(ConfigurationError, match=r"one partition is wanted: .*[Uu]nknown topic"):
        AccessWatch(source).read()
    Topics(bootstrap_servers, "").create(
        Settings(bootstrap_servers=bootstrap_servers), [topic(settings)], []
    )
    with pytest.raises(ConfigurationError, match="2 partitions"):
        AccessWatch(source).read()


def test_a_checked_file_is_published_and_one_with_mistakes_is_not(
    settings: Settings, source: TopicRules, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plain_acl.yml"
    file.write_text(RULES)
    options = ["--bootstrap-servers", settings.bootstrap_servers, "--output", "json"]

    def publish(*more: str) -> tuple[int, dict[str, Any]]:
        code = execute(LazyGroup(NOUNS), ["acl", "publish", str(file), *options, *more])
        told = capsys.readouterr()
        return code, json.loads(told.out or told.err)

    assert publish()[0] == 2
    code, told = publish("--set", f"acl_file={settings.acl_file}")
    file.write_text(RULES + "- {accessKey: x}\n")
    broken, problem = publish("--set", f"acl_file={settings.acl_file}")

    assert (code, told["accounts"], told["offset"]) == (0, 1, 0)
    assert (broken, problem["error"]["kind"]) == (2, "ConfigurationError")
    assert list(source.rules().accounts) == ["orders-service"]
