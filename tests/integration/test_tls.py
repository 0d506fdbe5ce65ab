"""One set of TLS settings serves all three kinds of client, on a broker that wants certificates."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from tests.integration.guarded import java_client_gets_in

from checkback.deploy.admin import admin_client
from checkback.deploy.broker import QUICK_START, EmbeddedBroker
from checkback.protocol.connection import confluent_settings
from checkback.protocol.errors import BrokerError

pytestmark = [
    pytest.mark.nightly,  # tests/unit/test_connection.py holds each client's settings by day
    pytest.mark.skipif(shutil.which("openssl") is None, reason="makes certificates with it"),
]


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority in a folder.

    Args:
        folder: holds ca.pem and ca.key, and what is issued.
    """

    folder: Path

    def create(self) -> None:
        subject = ("-subj", "/CN=authority")
        self._openssl("req", "-x509", "-nodes", *self._key("ca"), "-out", "ca.pem", *subject)

    def issue(self, name: str) -> None:
        """Issue name.pem and name.key, good for the loopback address."""
        (self.folder / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost")
        request = (*self._key(name), "-out", f"{name}.csr", "-subj", f"/CN={name}")
        self._openssl("req", "-nodes", *request)
        signed_by = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names")
        self._openssl("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.pem", *signed_by)

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    def _key(self, name: str) -> tuple[str, ...]:
        return ("-newkey", "rsa:2048", "-keyout", f"{name}.key")

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.folder, capture_output=True, check=True)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority that issued a certificate for the broker and one for the client."""
    created = Authority(tmp_path_factory.mktemp("authority"))
    created.create()
    for name in ("broker", "client"):
        created.issue(name)
    return created


@pytest.fixture(scope="module")
def tls_broker(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker that takes no client without a certificate; where it is."""
    both = authority.folder / "broker-both.pem"
    both.write_text(authority.text("broker.key") + authority.text("broker.pem"))
    properties = {
        "listener.security.protocol.map": "CLIENT:SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(both),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.folder / "ca.pem"),
    }
    with EmbeddedBroker(
        tmp_path_factory.mktemp("tls"), properties=properties, jvm_options=QUICK_START
    ) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def kafka(authority: Authority) -> dict[str, str]:
    """The settings of a client with a certificate."""
    return {
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.folder / "ca.pem"),
        "ssl.certificate.location": str(authority.folder / "client.pem"),
        "ssl.key.location": str(authority.folder / "client.key"),
    }


def test_kafka_python_gets_in(tls_broker: str, kafka: dict[str, str]) -> None:
    with admin_client(tls_broker, kafka) as admin:
        assert len(admin.describe_cluster()["brokers"]) == 1


def test_librdkafka_gets_in(tls_broker: str, kafka: dict[str, str]) -> None:
    admin = AdminClient(dict(confluent_settings(tls_broker, kafka)))

    assert len(admin.list_topics(timeout=20).brokers) == 1


def test_java_gets_in_without_the_files(
    tls_broker: str, kafka: dict[str, str], tmp_path: Path
) -> None:
    java_client_gets_in(tls_broker, kafka, tmp_path)


def test_another_authority_is_not_trusted(
    tls_broker: str, kafka: dict[str, str], tmp_path: Path
) -> None:
    other = Authority(tmp_path)
    other.create()

    with (
        pytest.raises(BrokerError, match="certificate verify failed"),
        admin_client(tls_broker, {**kafka, "ssl.ca.location": str(tmp_path / "ca.pem")}),
    ):
        pass


def test_without_a_certificate_nobody_gets_in(tls_broker: str, kafka: dict[str, str]) -> None:
    bare = {key: kafka[key] for key in ("security.protocol", "ssl.ca.location")}

    with pytest.raises(BrokerError, match="No TLS connection"), admin_client(tls_broker, bare):
        pass
