"""What the doctor says where the brokers have an authorizer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from checkback.deploy.broker import QUICK_START, EmbeddedBroker
from checkback.deploy.topics import create_topics
from checkback.operations.diagnosis import Result
from checkback.operations.doctor import Doctor
from checkback.protocol.configuration import Settings
from checkback.protocol.connection import confluent_settings

PASSWORD = "not-a-secret"  # noqa: S105 - of a broker that lives for one test


@pytest.fixture(scope="module")
def guarded_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A broker that lets user admin do all, and others what they were granted."""
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    users = f'user_admin="{PASSWORD}" user_pipeline="{PASSWORD}"'
    properties = {
        "listener.security.protocol.map": (
            "CLIENT:SASL_PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
        "listener.name.client.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": f"{plain} required {users};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
    }
    folder = tmp_path_factory.mktemp("guarded")
    with EmbeddedBroker(folder, properties=properties, jvm_options=QUICK_START) as running:
        yield running


def settings_of(user: str, broker: EmbeddedBroker) -> Settings:
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": PASSWORD,
    }
    return Settings(bootstrap_servers=broker.bootstrap_servers, state_partitions=1, kafka=login)


def grant(settings: Settings, kind: ResourceType, name: str, *operations: AclOperation) -> None:
    admin = AdminClient(confluent_settings(settings.bootstrap_servers, settings.kafka))
    bindings = [
        AclBinding(
            kind, name, ResourcePatternType.PREFIXED, "User:pipeline", "*", operation,
            AclPermissionType.ALLOW,
        )
        for operation in operations
    ]  # fmt: skip
    for future in admin.create_acls(bindings).values():
        future.result(30)


def failures(settings: Settings) -> dict[str, str]:
    found = Doctor(settings, lambda: 0).findings()
    return {
        one.check: one.says
        for one in found
        if one.result is Result.FAILED and one.check != "clock"  # this test's stands still
    }


def test_a_right_that_is_missing_is_named(guarded_broker: EmbeddedBroker) -> None:
    admin, pipeline = (settings_of(user, guarded_broker) for user in ("admin", "pipeline"))
    create_topics(admin)
    names, topic = admin.topics, ResourceType.TOPIC
    seeing = (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
    for name in (names.half, names.op, names.settled):
        grant(admin, topic, name, *seeing, AclOperation.READ)
    for name in (names.op, names.discarded, names.refused):
        grant(admin, topic, name, *seeing, AclOperation.WRITE)

    told = failures(pipeline)

    assert told.pop(f"rights on {names.settled}") == "missing: WRITE"
    assert "authorization" in told.pop("transactional ids").lower()
    assert told == {}

    grant(admin, topic, names.settled, AclOperation.WRITE)
    ids = (AclOperation.DESCRIBE, AclOperation.WRITE)
    # By index: the stubs do not know it.
    grant(admin, ResourceType["TRANSACTIONAL_ID"], "checkback-", *ids)
    assert failures(pipeline) == {}
