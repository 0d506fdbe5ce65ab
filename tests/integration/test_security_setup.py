"""The set-up of logins that docs/security.md describes, on a broker with just these properties."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)
from tests.integration.guarded import Acls, bindings_of
from tests.integration.test_tls import Authority

from checkback.client.kafka.errors import cause_of
from checkback.deploy.broker import QUICK_START, EmbeddedBroker
from checkback.deploy.topics import create_topics
from checkback.protocol.configuration import Settings
from checkback.protocol.connection import confluent_settings
from checkback.protocol.topics import TopicNames
from checkback.security.grants import kafka_acls_command, producer_grants

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="makes certificates with it"),
]
DOCUMENT = (Path(__file__).parents[2] / "docs" / "security.md").read_text("utf-8")
PASSWORD = "not-a-secret"  # noqa: S105 - of a broker that lives for one test
NAMES = TopicNames()


def documented(heading: str) -> dict[str, str]:
    """Return the brokers' properties in the section with that heading."""
    section = DOCUMENT.split(f"\n## {heading}", 1)[1].split("\n## ", 1)[0]
    block = re.search(r"```\n(.*?)```", section, re.DOTALL)
    assert block is not None
    lines = (line.strip() for line in block[1].splitlines())
    return dict(line.split("=", 1) for line in lines if line)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    created = Authority(tmp_path_factory.mktemp("authority"))
    created.create()
    for name in ("broker", "admin", "orders", "stranger"):
        created.issue(name)
    key, certificate = created.text("broker.key"), created.text("broker.pem")
    (created.folder / "broker-both.pem").write_text(key + certificate)
    return created


@contextmanager
def broker_with(
    properties: dict[str, str], authority: Authority, folder: Path
) -> Iterator[EmbeddedBroker]:
    """Run a broker with documented properties; only places are its own, and its internal port.

    There the test makes the first user, whom a real cluster gets with its storage.
    """
    own = {
        key: value
        for key, value in properties.items()
        if key not in ("listeners", "inter.broker.listener.name", "controller.listener.names")
    }
    own["ssl.keystore.location"] = str(authority.folder / "broker-both.pem")
    own["ssl.truststore.location"] = str(authority.folder / "ca.pem")
    client = own["listener.security.protocol.map"].split(",")[0]
    own["listener.security.protocol.map"] = f"{client},INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"
    own["super.users"] += ";User:ANONYMOUS"
    with EmbeddedBroker(folder, properties=own, jvm_options=QUICK_START) as running:
        yield running


def by_password(user: str, authority: Authority) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": PASSWORD,
        "ssl.ca.location": str(authority.folder / "ca.pem"),
    }


def by_certificate(user: str, authority: Authority) -> dict[str, str]:
    return {
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.folder / "ca.pem"),
        "ssl.certificate.location": str(authority.folder / f"{user}.pem"),
        "ssl.key.location": str(authority.folder / f"{user}.key"),
    }


def make_users(broker: EmbeddedBroker, *users: str) -> None:
    internal = f"127.0.0.1:{broker.node.internal_port}"
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    wanted: list[UserScramCredentialAlteration] = [
        UserScramCredentialUpsertion(one, info, PASSWORD.encode()) for one in users
    ]
    admin = AdminClient({"bootstrap.servers": internal})
    for future in admin.alter_user_scram_credentials(wanted).values():
        future.result(30)


def write(connection: dict[str, str]) -> KafkaError | None:
    """Write to the half topic; return what was refused."""
    told: list[KafkaError | None] = []
    producer = Producer({**connection, "log_level": 0, "message.timeout.ms": 10_000})
    try:
        producer.produce(NAMES.half, b"x", on_delivery=lambda error, _: told.append(error))
    except KafkaException as error:
        return cause_of(error)
    producer.flush(15)
    return told[0]


def require_only_orders_may_write(
    broker: EmbeddedBroker, logins: dict[str, dict[str, str]]
) -> None:
    servers = broker.bootstrap_servers
    create_topics(Settings(bootstrap_servers=servers, state_partitions=1, kafka=logins["admin"]))
    acls = Acls(servers, logins["admin"])
    for grant in producer_grants(NAMES, "orders"):
        acls.give(bindings_of(kafka_acls_command(grant, "User:orders", servers)))

    assert write(confluent_settings(servers, logins["orders"])) is None
    refused = write(confluent_settings(servers, logins["stranger"]))
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_scram_as_documented(authority: Authority, tmp_path: Path) -> None:
    properties = documented("Logins by SASL/SCRAM")
    with broker_with(properties, authority, tmp_path / "broker") as broker:
        users = ("admin", "orders", "stranger")
        make_users(broker, *users)
        require_only_orders_may_write(broker, {one: by_password(one, authority) for one in users})


def test_certificates_as_documented(authority: Authority, tmp_path: Path) -> None:
    properties = documented("Logins by SASL/SCRAM") | documented("Logins by certificates")
    with broker_with(properties, authority, tmp_path / "broker") as broker:
        users = ("admin", "orders", "stranger")
        logins = {one: by_certificate(one, authority) for one in users}
        require_only_orders_may_write(broker, logins)
