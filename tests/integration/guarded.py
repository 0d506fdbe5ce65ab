"""A broker with its authorizer on, who logs in there, and how rights are given and taken."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from tests.integration.running import COMMAND, Topics, wait_until

from checkback.deploy.broker import QUICK_START, EmbeddedBroker
from checkback.deploy.broker_files import render
from checkback.deploy.jars import ensure_jars
from checkback.deploy.java import find_java
from checkback.protocol.connection import confluent_settings, java_settings
from checkback.streaming.source.kafka_source import pem_text

PASSWORD = "not-a-secret"  # noqa: S105 - of a broker that lives for one test
ADMIN = "admin"
"""May do all; the others may do what they were granted."""


@contextmanager
def guarded_broker(folder: Path, *users: str) -> Iterator[EmbeddedBroker]:
    """Run a broker at which these users and the admin can log in with PASSWORD."""
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    logins = " ".join(f'user_{user}="{PASSWORD}"' for user in (ADMIN, *users))
    properties = {
        "listener.security.protocol.map": (
            "CLIENT:SASL_PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
        "listener.name.client.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": f"{plain} required {logins};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{ADMIN}",
    }
    with EmbeddedBroker(folder, properties=properties, jvm_options=QUICK_START) as running:
        yield running


def login(user: str) -> dict[str, str]:
    """Return the `kafka` settings of a user."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": PASSWORD,
    }


def java_client_gets_in(bootstrap_servers: str, kafka: dict[str, str], folder: Path) -> None:
    """Have a tool of Kafka's ask the brokers with these settings."""
    file = folder / "client.properties"
    file.write_text(render(java_settings(bootstrap_servers, kafka, pem_text)))
    jars = ":".join(str(jar) for jar in ensure_jars("kafka"))
    tool = ["kafka.admin.ConfigCommand", "--describe", "--entity-type", "topics"]
    tool += ["--command-config", str(file), "--bootstrap-server", bootstrap_servers]
    ran = subprocess.run(
        [find_java(), "-cp", jars, *tool], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr


class Acls:
    """Gives rights and takes them back, as the admin, who may log in another way."""

    def __init__(self, bootstrap_servers: str, kafka: Mapping[str, str] | None = None) -> None:
        self.admin = AdminClient(confluent_settings(bootstrap_servers, kafka or login(ADMIN)))

    def give(self, bindings: Iterable[AclBinding]) -> None:
        wanted = list(bindings)
        if wanted:
            for future in self.admin.create_acls(wanted).values():
                future.result(30)
        wait_until(lambda: all(self._has(one) for one in wanted), what="the rights are there")

    def take(self, *bindings: AclBinding) -> None:
        for future in self.admin.delete_acls(list(map(_filter_of, bindings))).values():
            future.result(30)
        wait_until(lambda: not any(map(self._has, bindings)), what="the rights are gone")

    def _has(self, binding: AclBinding) -> bool:
        return bool(self.admin.describe_acls(_filter_of(binding)).result(30))


def _filter_of(one: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        one.restype, one.name, one.resource_pattern_type, one.principal, one.host, one.operation,
        one.permission_type,
    )  # fmt: skip


def bindings_of(command: str) -> list[AclBinding]:
    """Return what a `kafka-acls --add` command gives, read as that program reads it."""
    program, *words = shlex.split(command)
    assert program == "kafka-acls"
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--add", action="store_true", required=True)
    parser.add_argument("--allow-principal", required=True)
    parser.add_argument("--operation", action="append", required=True)
    parser.add_argument("--resource-pattern-type", choices=["literal", "prefixed"])
    kinds = parser.add_mutually_exclusive_group(required=True)
    for kind in ("topic", "group", "transactional-id"):
        kinds.add_argument(f"--{kind}")
    read: dict[str, Any] = vars(parser.parse_args(words))
    kind = next(one for one in ("topic", "group", "transactional_id") if read[one])
    pattern = (read["resource_pattern_type"] or "literal").upper()
    return [
        AclBinding(
            # By index: the stubs do not know all of them.
            ResourceType[kind.upper()],
            read[kind],
            ResourcePatternType[pattern],
            read["allow_principal"],
            "*",
            AclOperation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).upper()],
            AclPermissionType.ALLOW,
        )
        for operation in read["operation"]
    ]


def needed(topics: Topics, real: Iterable[str], *arguments: str) -> list[AclBinding]:
    """Return what `checkback acl grants` says that is needed, without what is optional.

    Args:
        topics: a deployment's topics; their prefix is its application id, too.
        real: real topics, without the prefix.
        arguments: whom the grants are for.
    """
    named = [option for one in real for option in ("--topic", topics.prefix + one)]
    printed = subprocess.check_output(
        [
            COMMAND, "acl", "grants", *arguments, *named,
            "--topic-prefix", topics.prefix, "--application-id", topics.prefix, "--output", "json",
        ],
        text=True,
    )  # fmt: skip
    grants: list[dict[str, Any]] = json.loads(printed)["grants"]
    commands = [grant["command"] for grant in grants if not grant["optional"]]
    return [binding for one in commands for binding in bindings_of(one)]
