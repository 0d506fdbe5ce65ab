"""What the doctor says where the brokers have an authorizer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from tests.integration.guarded import Acls, guarded_broker, login

from checkback.deploy.broker import EmbeddedBroker
from checkback.deploy.topics import create_topics
from checkback.operations.doctor.doctor import Doctor
from checkback.operations.doctor.judgements import Result
from checkback.protocol.configuration import Settings


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    with guarded_broker(tmp_path_factory.mktemp("guarded"), "pipeline", "bare") as running:
        yield running


def settings_of(user: str, broker: EmbeddedBroker) -> Settings:
    return Settings(
        bootstrap_servers=broker.bootstrap_servers, state_partitions=1, kafka=login(user)
    )


def grant(
    broker: EmbeddedBroker,
    kind: ResourceType,
    name: str,
    *operations: AclOperation,
    user: str = "pipeline",
) -> None:
    Acls(broker.bootstrap_servers).give(
        AclBinding(
            kind, name, ResourcePatternType.PREFIXED, f"User:{user}", "*", operation,
            AclPermissionType.ALLOW,
        )
        for operation in operations
    )  # fmt: skip


def failures(settings: Settings) -> dict[str, str]:
    found = Doctor(settings, lambda: 0).findings()
    return {
        one.check: one.says
        for one in found
        if one.result is Result.FAILED and one.check != "clock"  # this test's stands still
    }


def test_a_right_that_is_missing_is_named(broker: EmbeddedBroker) -> None:
    admin, pipeline = (settings_of(user, broker) for user in ("admin", "pipeline"))
    create_topics(admin)
    names, topic = admin.topics, ResourceType.TOPIC
    seeing = (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
    for name in (*names.read, names.settled):
        grant(broker, topic, name, *seeing, AclOperation.READ)
    for name in (names.feedback, names.discarded, names.refused, names.status):
        grant(broker, topic, name, *seeing, AclOperation.WRITE)

    told = failures(pipeline)

    assert told.pop(f"rights on {names.settled}") == "missing: WRITE"
    assert "authorization" in told.pop("transactional ids").lower()
    assert told == {}

    grant(broker, topic, names.settled, AclOperation.WRITE)
    ids = (AclOperation.DESCRIBE, AclOperation.WRITE)
    # By index: the stubs do not know it.
    grant(broker, ResourceType["TRANSACTIONAL_ID"], "checkback-", *ids)
    assert failures(pipeline) == {}


def test_only_what_is_needed_fails(broker: EmbeddedBroker) -> None:
    """With what `acl grants` prints, topics failed whose settings the pipeline may not see."""
    create_topics(settings_of("admin", broker))
    pipeline = replace(settings_of("bare", broker), application_id="bare")
    names, topic = pipeline.topics, ResourceType.TOPIC
    for name in (*names.read, names.settled):
        grant(broker, topic, name, AclOperation.READ, user="bare")
    for name in (names.feedback, names.settled, names.discarded, names.refused):
        grant(broker, topic, name, AclOperation.WRITE, user="bare")
    grant(broker, ResourceType["TRANSACTIONAL_ID"], "bare-", AclOperation.WRITE, user="bare")

    assert failures(pipeline) == {}
