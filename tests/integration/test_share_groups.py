"""Share groups read aborted messages by default; the doctor names them, with the command."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer
from kafka.admin import ConfigResource, ConfigResourceType
from tests.integration.running import Topics, require_share_groups

from checkback.deploy.admin import admin_client
from checkback.deploy.jars import ensure_jars
from checkback.deploy.java import find_java
from checkback.operations.doctor.broker_checks import BrokerChecks
from checkback.operations.doctor.judgements import Result
from checkback.protocol.configuration import Settings

READER: Final = Path(__file__).with_name("ShareReader.java")


def configure(servers: str, group: str, **levels: str) -> None:
    settings = {f"share.{name.replace('_', '.')}": value for name, value in levels.items()}
    with admin_client(servers, {}) as admin:
        kind = ConfigResourceType["GROUP"]
        admin.alter_configs([ConfigResource(kind, group, settings)])


def write(servers: str, topic: str) -> None:
    """Write an aborted message, a committed one, and the end."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": f"{topic}-sink"})
    producer.init_transactions(30)
    for bodies, end in (
        (["aborted"], producer.abort_transaction),
        (["committed", "end"], producer.commit_transaction),
    ):
        producer.begin_transaction()
        for body in bodies:
            producer.produce(topic, body, partition=0)
        producer.flush(30)
        end(30)


def given_to(servers: str, topic: str, *groups: str) -> list[str]:
    """Return each group's name, and what share consumers of Kafka's Java client are given."""
    jars = os.pathsep.join(map(str, ensure_jars("kafka")))
    ran = subprocess.run(
        [str(find_java()), "-Xmx128m", "-cp", jars, str(READER), servers, topic, *groups],
        capture_output=True, text=True, check=False, timeout=150,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.split()


@pytest.mark.skipif(shutil.which("javac") is None, reason="runs from source: needs a JDK")
def test_a_share_group_reads_aborted_messages_until_its_isolation_is_set(
    bootstrap_servers: str, unique: str
) -> None:
    require_share_groups(bootstrap_servers)
    settings = Settings(bootstrap_servers=bootstrap_servers, topic_prefix=unique)
    topic, careless, careful = f"{unique}paid", f"{unique}careless", f"{unique}careful"
    Topics(bootstrap_servers, unique).create(settings, [topic])
    configure(bootstrap_servers, careless, auto_offset_reset="earliest")
    write(bootstrap_servers, topic)

    def named() -> list[str]:
        found = BrokerChecks(settings).share_groups()
        return [
            f"{one.says} {one.remedy}"
            for one in found
            if one.result is Result.WARNING and unique in one.says
        ]

    configure(
        bootstrap_servers, careful, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    assert given_to(bootstrap_servers, topic, careless, careful) == [
        careless, "aborted", "committed", "end", careful, "committed", "end",
    ]  # fmt: skip
    [warning] = named()
    assert f"{careless} reads aborted messages" in warning
    assert f"--entity-name {careless} --add-config share.isolation.level=read_committed" in warning

    configure(bootstrap_servers, careless, isolation_level="read_committed")
    assert named() == []
