"""The least rights, and the exact commands that give them."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from checkback.commands.acl import Central, _grants
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import ConfigurationError
from checkback.security.grants import (
    Grant,
    Resource,
    kafka_acls_command,
    operator_grants,
    pipeline_grants,
    relay_grants,
)

SETTINGS = Settings(topic_prefix="eu.")


def rights(grants: list[Grant], *, is_optional: bool = False) -> set[tuple[str, str, str]]:
    return {
        (grant.resource.value, grant.name + ("*" if grant.is_prefix else ""), operation)
        for grant in grants
        if grant.is_optional is is_optional
        for operation in grant.operations
    }


def test_with_groups_the_pipeline_may_ask_only_them() -> None:
    found = rights(pipeline_grants(SETTINGS, ["paid"], ["orders", "stock"]))

    assert {name for _, name, _ in found if "CHECK_" in name} == {
        "eu.RMQ_SYS_TRANS_CHECK_orders",
        "eu.RMQ_SYS_TRANS_CHECK_stock",
        "eu.TRANS_CHECK_MAX_TIME_TOPIC",
    }


def test_only_relay_and_pipeline_may_write_what_is_believed() -> None:
    decided = ("topic", "eu.RMQ_SYS_TRANS_DECIDED_TOPIC", "Write")
    relay = rights(relay_grants(SETTINGS, ["paid"]))

    assert decided in relay
    assert ("group", "checkback-relay", "Read") in relay
    assert ("group", "checkback", "Describe") in relay
    assert ("transactional-id", "checkback-relay-*", "Write") in relay
    assert {name for kind, name, right in relay if kind == "topic" and right == "Write"} == {
        "paid", decided[1],
    }  # fmt: skip
    assert decided in rights(pipeline_grants(replace(SETTINGS, relay=True), ["paid"]))
    assert decided not in rights(pipeline_grants(SETTINGS, ["paid"]))


@pytest.mark.parametrize("central", [pipeline_grants, operator_grants, relay_grants])
@pytest.mark.parametrize("relay", [True, False])
def test_where_relay_is_set_each_login_may_read_the_decided_topic(
    central: Central, *, relay: bool
) -> None:
    settings = Settings(topic_prefix="eu.", relay=relay)
    grants = _grants(settings, (), ["paid"], central)
    found = rights(grants) | rights(grants, is_optional=True)

    may_read = ("topic", "eu.RMQ_SYS_TRANS_DECIDED_TOPIC", "Read") in found
    assert may_read is (relay or central is relay_grants)


def test_the_command_is_what_a_shell_takes() -> None:
    grant = Grant(Resource.TRANSACTIONAL_ID, "check back-", ("Read", "Write"), "test", True)
    command = kafka_acls_command(grant, "User:CN=orders,O=Shop & Co", "a:1,b:2", "my login")

    assert shlex.split(command) == [
        "kafka-acls", "--bootstrap-server", "a:1,b:2", "--command-config", "my login", "--add",
        "--allow-principal", "User:CN=orders,O=Shop & Co", "--operation", "Read", "--operation",
        "Write", "--transactional-id", "check back-", "--resource-pattern-type", "prefixed",
    ]  # fmt: skip


def test_without_brokers_a_variable_stands_in_the_command() -> None:
    grant = Grant(Resource.GROUP, "orders", ("Read",), "test")

    assert kafka_acls_command(grant, "User:orders", "") == (
        'kafka-acls --bootstrap-server "$BOOTSTRAP_SERVERS" --add --allow-principal User:orders'
        " --operation Read --group orders"
    )


@pytest.mark.parametrize("principal", ["", "orders", ":orders", "User:"])
def test_a_principal_has_a_type(principal: str) -> None:
    with pytest.raises(ConfigurationError, match="no Kafka principal"):
        kafka_acls_command(Grant(Resource.GROUP, "orders", ("Read",), ""), principal, "a:1")
