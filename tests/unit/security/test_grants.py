"""The least rights, and the exact commands that give them."""

from __future__ import annotations

import shlex

import pytest

from checkback.protocol.errors import ConfigurationError
from checkback.protocol.topics import TopicNames
from checkback.security.grants import (
    Grant,
    Resource,
    kafka_acls_command,
    operator_grants,
    pipeline_grants,
    producer_grants,
)

NAMES = TopicNames("eu.")


def rights(grants: list[Grant], *, is_optional: bool = False) -> set[tuple[str, str, str]]:
    return {
        (grant.resource.value, grant.name + ("*" if grant.is_prefix else ""), operation)
        for grant in grants
        if grant.is_optional is is_optional
        for operation in grant.operations
    }


def test_a_producer_reads_only_what_is_its_own() -> None:
    found = producer_grants(NAMES, "orders", ["paid"])

    assert rights(found) == {
        ("topic", "eu.RMQ_SYS_TRANS_HALF_TOPIC", "Write"),
        ("topic", "eu.RMQ_SYS_TRANS_OP_HALF_TOPIC", "Write"),
        ("topic", "eu.RMQ_SYS_TRANS_CHECK_orders", "Read"),
        ("topic", "eu.RMQ_SYS_TRANS_CHECK_orders", "Create"),
        ("group", "eu.RMQ_SYS_TRANS_CHECK_orders", "Read"),
    }
    assert rights(found, is_optional=True) == {
        ("topic", "eu.RMQ_SYS_TRANS_HALF_TOPIC", "DescribeConfigs"),
        ("topic", "eu.RMQ_SYS_TRANS_STATUS_TOPIC", "Read"),
        ("topic", "paid", "Describe"),
        ("topic", "paid", "DescribeConfigs"),
    }


def test_the_pipeline_writes_to_the_topics_that_are_named() -> None:
    found = pipeline_grants(NAMES, "checkback", ["paid", "done"])

    assert rights(found) == {
        ("topic", "eu.RMQ_SYS_TRANS_HALF_TOPIC", "Read"),
        ("topic", "eu.RMQ_SYS_TRANS_OP_HALF_TOPIC", "Read"),
        ("topic", "eu.RMQ_SYS_TRANS_FEEDBACK_TOPIC", "Read"),
        ("topic", "eu.RMQ_SYS_TRANS_FEEDBACK_TOPIC", "Write"),
        ("topic", "eu.RMQ_SYS_TRANS_SETTLED_TOPIC", "Read"),
        ("topic", "eu.RMQ_SYS_TRANS_SETTLED_TOPIC", "Write"),
        ("topic", "eu.TRANS_CHECK_MAX_TIME_TOPIC", "Write"),
        ("topic", "eu.RMQ_SYS_TRANS_REFUSED_TOPIC", "Write"),
        ("topic", "paid", "Write"),
        ("topic", "done", "Write"),
        ("topic", "eu.RMQ_SYS_TRANS_CHECK_*", "Write"),
        ("transactional-id", "checkback-*", "Write"),
        ("group", "checkback-marker-*", "Read"),
    }
    optional = rights(found, is_optional=True)
    assert ("group", "checkback", "Read") in optional
    assert ("group", "eu.RMQ_SYS_TRANS_CHECK_*", "Describe") in optional


def test_with_groups_the_pipeline_may_ask_only_them() -> None:
    found = rights(pipeline_grants(NAMES, "checkback", ["paid"], ["orders", "stock"]))

    assert {name for _, name, _ in found if "CHECK_" in name} == {
        "eu.RMQ_SYS_TRANS_CHECK_orders",
        "eu.RMQ_SYS_TRANS_CHECK_stock",
        "eu.TRANS_CHECK_MAX_TIME_TOPIC",
    }


def test_operators_read_what_is_there_and_write_what_their_commands_write() -> None:
    found = rights(operator_grants(NAMES, "shop", ["paid"], ["orders"]))

    read = {name for kind, name, operation in found if (kind, operation) == ("topic", "Read")}
    assert read == {
        *NAMES.read, NAMES.settled, NAMES.refused, NAMES.discarded, NAMES.check("orders"), "paid",
    }  # fmt: skip
    assert {one for one in found if one[2] != "Read"} == {
        *(("topic", one, "Write") for one in (NAMES.half, NAMES.op, "paid")),
        *(("topic", one, "Write") for one in (NAMES.refused, NAMES.discarded)),
        ("transactional-id", "shop-resume", "Write"),
        ("transactional-id", "shop-resend", "Write"),
    }
    everywhere = rights(operator_grants(NAMES, "shop", ["paid"]))
    assert everywhere - found == {("topic", NAMES.check("") + "*", "Read")}


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
