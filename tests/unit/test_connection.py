"""Connection settings: every client gets all of them, or they are refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from checkback.protocol.configuration import Settings
from checkback.protocol.connection import (
    confluent_settings,
    java_settings,
    kafka_python_settings,
    spark_settings,
)
from checkback.protocol.errors import ConfigurationError
from checkback.streaming.source.kafka_source import pem_text

SASL = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "orders",
    "sasl.password": 'top"se\\cret',
    "ssl.ca.location": "/tls/ca.pem",
}
MUTUAL_TLS = {
    "security.protocol": "SSL",
    "ssl.ca.location": "/tls/ca.pem",
    "ssl.certificate.location": "/tls/own.pem",
    "ssl.key.location": "/tls/own.key",
    "ssl.key.password": "unlock",
}


def text_of(name: str) -> str:
    return f"text of {name}"


def for_java(servers: str, kafka: dict[str, str]) -> dict[str, str]:
    return java_settings(servers, kafka, text_of)


ALL: list[Callable[[str, dict[str, str]], dict[str, Any]]] = [
    kafka_python_settings,
    confluent_settings,
    for_java,
]
every_client = pytest.mark.parametrize("translate", ALL)


def test_kafka_python_gets_its_own_names() -> None:
    assert kafka_python_settings("a:1, b:2", SASL) == {
        "bootstrap_servers": ["a:1", "b:2"],
        "reconnect_backoff_max_ms": 1_000,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "orders",
        "sasl_plain_password": 'top"se\\cret',
        "ssl_cafile": "/tls/ca.pem",
    }


def test_librdkafka_gets_the_settings_as_they_are() -> None:
    assert confluent_settings("a:1", SASL) == {"bootstrap.servers": "a:1", **SASL}


def test_java_gets_a_login_module_and_the_text_of_the_certificates() -> None:
    assert for_java("a:1", SASL) == {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required"
        ' username="orders" password="top\\"se\\\\cret";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "text of /tls/ca.pem",
    }


def test_java_gets_key_and_certificate_of_mutual_tls() -> None:
    found = for_java("a:1", MUTUAL_TLS)

    assert found["ssl.keystore.certificate.chain"] == "text of /tls/own.pem"
    assert found["ssl.keystore.key"] == "text of /tls/own.key"
    assert found["ssl.key.password"] == "unlock"
    assert not {"ssl.ca.location", "ssl.key.location", "sasl.jaas.config"} & found.keys()


def test_spark_has_every_java_setting_under_its_prefix() -> None:
    assert spark_settings("a:1", {"client.id": "x"}, text_of) == {
        "kafka.bootstrap.servers": "a:1",
        "kafka.client.id": "x",
    }


@pytest.mark.parametrize(("value", "checked"), [("https", True), ("none", False), ("", False)])
def test_host_name_check_is_switched_in_each_clients_way(value: str, checked: bool) -> None:
    kafka = {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": value}
    key = "ssl.endpoint.identification.algorithm"

    assert kafka_python_settings("a:1", kafka)["ssl_check_hostname"] is checked
    assert confluent_settings("a:1", kafka)[key] == ("https" if checked else "none")
    assert for_java("a:1", kafka)[key] == ("https" if checked else "")


def test_sasl_mechanisms_is_librdkafkas_other_name_for_sasl_mechanism() -> None:
    kafka = {"sasl.mechanisms" if key == "sasl.mechanism" else key: SASL[key] for key in SASL}

    assert kafka_python_settings("a:1", kafka) == kafka_python_settings("a:1", SASL)


def test_numbers_are_numbers_for_kafka_python() -> None:
    assert kafka_python_settings("a:1", {"request.timeout.ms": "500"})["request_timeout_ms"] == 500
    with pytest.raises(ConfigurationError, match=r"request\.timeout\.ms"):
        kafka_python_settings("a:1", {"request.timeout.ms": "soon"})


def test_what_kafka_python_has_not_and_is_no_security_is_left_out() -> None:
    given = kafka_python_settings("a:1", {"queue.buffering.max.ms": "5"})

    assert given == kafka_python_settings("a:1", {})


def test_one_dead_broker_holds_kafka_python_up_for_a_second_unless_told_otherwise() -> None:
    by_default = kafka_python_settings("a:1", {})
    told = kafka_python_settings("a:1", {"reconnect.backoff.max.ms": "5000"})

    assert by_default["reconnect_backoff_max_ms"] == 1_000
    assert told["reconnect_backoff_max_ms"] == 5_000


@every_client
@pytest.mark.parametrize(
    ("kafka", "said"),
    [
        ({"ssl.truststore.location": "t.jks"}, "ssl.ca.location"),
        ({"sasl.jaas.config": "x secret"}, "sasl.username"),
        ({"enable.ssl.certificate.verification": "false"}, "ssl.ca.location"),
        ({"sasl.oauthbearer.method": "oidc"}, "sasl.mechanism"),
        ({"security.protocol": "TLS"}, "SASL_SSL"),
        ({**SASL, "sasl.mechanism": "GSSAPI"}, "PLAIN"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "sasl.username"),
        ({"sasl.mechanism": "PLAIN"}, "security.protocol"),
    ],
)
def test_security_that_cannot_be_honoured_is_refused(
    translate: Callable[[str, dict[str, str]], object], kafka: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        translate("a:1", kafka)

    assert said in str(refused.value)
    assert "secret" not in str(refused.value)


@every_client
@pytest.mark.parametrize("servers", ["", " , "])
def test_no_servers_is_a_configuration_error(
    translate: Callable[[str, dict[str, str]], object], servers: str
) -> None:
    with pytest.raises(ConfigurationError, match="bootstrap_servers is not set"):
        translate(servers, {})


@every_client
@pytest.mark.parametrize(
    "server",
    [
        "localhost:banana", ":::", ":9092", "localhost:", "localhost:0", "localhost:65536", "h:-1",
        "h:\u0661", "h:1:2", "a b:1", "h:1;i:2", "h\0:1", "h:1/x", "http://h:1", "[]:1",
        "[:::]:1", "[::1]9092", "[::1", "fe80::1%eth0", "PLAINTEXT://", "a:PLAINTEXT://1",
    ],
)  # fmt: skip
def test_a_server_that_is_no_address_is_a_configuration_error(
    translate: Callable[[str, dict[str, str]], object], server: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        translate(f"a:1,{server}", {})

    assert f"bootstrap_servers names {server!r}" in str(refused.value)
    assert refused.value.fields == {"key": "bootstrap_servers"}


@every_client
@pytest.mark.parametrize(
    "server",
    [
        "kafka", "127.0.0.1:1", "a_b-c.example.:65535", "PLAINTEXT://a:1", "sasl_ssl://[::1]:1",
        "[::1]:9092", "[::1]", "::1", "[fe80::1%eth0]:1", "[::ffff:10.0.0.1]:1", "m\xfcnchen:1",
    ],
)  # fmt: skip
def test_every_form_of_an_address_is_passed_on_as_it_is(
    translate: Callable[[str, dict[str, str]], dict[str, Any]], server: str
) -> None:
    found = translate(f"{server}, b:1,", {})

    assert [[server, "b:1"], f"{server},b:1"].count(next(iter(found.values()))) == 1


OAUTH = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}


def test_a_callback_for_tokens_is_passed_on_to_librdkafka() -> None:
    kafka = {**OAUTH, "sasl.oauthbearer.config": "scope=a", "oauth_cb": len}

    assert confluent_settings("a:1", kafka) == {"bootstrap.servers": "a:1", **kafka}


@every_client
@pytest.mark.parametrize(
    ("kafka", "says"),
    [
        (OAUTH, "kafka.sasl.mechanism has a value"),
        ({"oauth_cb": "module:function"}, "support kafka.oauth_cb. Give a function"),
    ],
)
def test_without_a_callback_there_is_no_oauth(
    translate: Callable[[str, dict[str, str]], object], kafka: dict[str, str], says: str
) -> None:
    with pytest.raises(ConfigurationError, match=says):
        translate("a:1", kafka)


def test_a_password_beside_a_callback_is_refused_by_its_mechanism() -> None:
    with pytest.raises(ConfigurationError, match=r"kafka\.sasl\.mechanism has a value"):
        confluent_settings("a:1", {**SASL, "oauth_cb": len})


def test_what_may_be_a_password_is_not_repeated() -> None:
    with pytest.raises(ConfigurationError, match=r"'\*\*\*@h:1'") as refused:
        confluent_settings("user:secret@h:1", {})

    assert "secret" not in str(refused.value)


def test_a_certificate_that_cannot_be_read_is_a_configuration_error() -> None:
    kafka = {"security.protocol": "SSL", "ssl.ca.location": "/nowhere/ca.pem"}

    with pytest.raises(ConfigurationError, match=r"/nowhere/ca\.pem"):
        java_settings("a:1", kafka, pem_text)


def test_a_deployments_clients_log_only_where_a_setting_asks_for_it() -> None:
    assert Settings(bootstrap_servers="a:1").connection()["log_level"] == "0"
    loud = Settings(bootstrap_servers="a:1", kafka={"log_level": "7"})
    assert loud.connection() == {"bootstrap.servers": "a:1", "log_level": "7"}


@pytest.mark.parametrize(
    "key",
    [
        "auto.offset.reset", "enable.auto.commit", "key.deserializer", "retries", "acks",
        "error_cb", "default.topic.config",
        "transaction.timeout.ms", "isolation.level", "partitioner", "bootstrap.servers",
    ],
)  # fmt: skip
def test_what_the_pipeline_decides_cannot_be_set(key: str) -> None:
    """A partitioner moved finals of a key; other values ended a task, or were passed over."""
    with pytest.raises(ConfigurationError, match=re.escape(f"kafka.{key}")) as caught:
        Settings(bootstrap_servers="a:1", kafka={key: "1"})
    assert caught.value.fields["key"] == f"kafka.{key}"
