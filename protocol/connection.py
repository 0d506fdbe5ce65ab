"""Kafka connection settings, set once and translated for the three kinds of client in use.

They have librdkafka's dotted names (``security.protocol``, ``sasl.username``, ``ssl.ca.location``
…), most of which the Java client uses, too. A security setting is translated or refused, never
dropped: without it a client would connect with less protection than the user asked for. Other
settings go to each client that knows them.

Each function raises ConfigurationError for servers that are missing or no host:port, and for a
security setting that can't be honoured.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from ipaddress import AddressValueError, IPv6Address
from typing import Any, Final

from checkback.protocol.errors import ConfigurationError

SECURITY_PREFIXES: Final = ("security.", "sasl.", "ssl.", "enable.ssl.", "enable.sasl.")
"""How the names of security settings begin."""

_KAFKA_PYTHON_NAMES: Final = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "client.id": "client_id",
    "client.dns.lookup": "client_dns_lookup",
}
_KAFKA_PYTHON_NUMBERS: Final = {
    "request.timeout.ms": "request_timeout_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "connections.max.idle.ms": "connections_max_idle_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
}
_RECONNECT_BACKOFF_MAX_MS: Final = 1_000
"""As the Java client waits at most by default. kafka-python 3.0.12 waits up to 30 s for a broker
that refuses connections, and tries no other one meanwhile.
"""
_HOST_NAME_CHECK: Final = "ssl.endpoint.identification.algorithm"
_SECURITY_NAMES: Final = frozenset(
    {name for name in _KAFKA_PYTHON_NAMES if name.startswith(SECURITY_PREFIXES)}
    | {_HOST_NAME_CHECK}
)
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PROTOCOL_BEFORE_HOST: Final = re.compile(rf"^(?:{'|'.join(_PROTOCOLS)})://", re.IGNORECASE)
_HOST_AND_PORT: Final = re.compile(
    r"(?:\[(?P<in_brackets>[^\s/@\[\]]+)\]|(?P<host>[^\s/@\[\]:]+))(?::(?P<port>[0-9]{1,5}))?"
)
_PORT_MAX: Final = 65_535
_LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
OAUTH_CALLBACK: Final = "oauth_cb"
_OAUTH_MECHANISM: Final = "OAUTHBEARER"
_OAUTH_NAMES: Final = frozenset({"sasl.oauthbearer.config"})
_SYNONYMS: Final = {"sasl.mechanisms": "sasl.mechanism"}
_INSTEAD: Final = {
    "oauth_cb": "Give a function, to a producer of an application: only librdkafka takes it.",
    "sasl.jaas.config": "Set sasl.username and sasl.password.",
    "ssl.truststore.location": "Set ssl.ca.location to a PEM file.",
    "ssl.truststore.password": "Set ssl.ca.location to a PEM file.",
    "ssl.keystore.location": "Set ssl.certificate.location and ssl.key.location to PEM files.",
    "ssl.keystore.password": "Set ssl.key.password.",
    "enable.ssl.certificate.verification": "Set ssl.ca.location to the brokers' own authority.",
}
_TAKE_OUT: Final = "Take it out: the pipeline sets it itself."
_OF_THE_PIPELINE: Final = {
    "bootstrap.servers": "Set bootstrap_servers.",
    "metadata.broker.list": "Set bootstrap_servers.",
    "message.max.bytes": "Set max_message_bytes.",
    "transaction.timeout.ms": "Set sink_transaction_timeout_ms.",
    **dict.fromkeys(
        (
            # What readers see, and where they begin. Spark's source refuses most of these.
            "auto.offset.reset", "enable.auto.commit", "enable.auto.offset.store",
            "enable.partition.eof", "group.id", "group.instance.id", "interceptor.classes",
            "isolation.level", "key.deserializer", "value.deserializer",
            # What makes a producer write once, and to which partition.
            "acks", "request.required.acks", "enable.idempotence", "max.in.flight",
            "max.in.flight.requests.per.connection", "message.send.max.retries", "partitioner",
            "retries", "transactional.id",
            # What a typing error must not make, and how the sink learns of rejected records.
            "allow.auto.create.topics", "delivery.report.only.error",
        ),
        _TAKE_OUT,
    ),
    **dict.fromkeys(
        ("default.topic.config", "error_cb", "logger", "stats_cb", "throttle_cb"),
        "Take it out: its value is a function or another object of a program.",
    ),
}  # fmt: skip
"""Settings that decide what the pipeline promises, and what to do instead of setting them."""


def require_free_settings(kafka: Mapping[str, str]) -> None:
    """Refuse the settings of Kafka's clients that the pipeline has to decide itself.

    Raises:
        ConfigurationError: names the key.
    """
    for key in kafka:
        if key in _OF_THE_PIPELINE:
            raise ConfigurationError(
                f"kafka.{key} can't be set.", remedy=_OF_THE_PIPELINE[key], key=f"kafka.{key}"
            )


def kafka_python_settings(bootstrap_servers: str, kafka: Mapping[str, str]) -> dict[str, Any]:
    """Return keyword arguments for any class of kafka-python; what it does not know is left out."""
    known = _checked(bootstrap_servers, kafka)
    found: dict[str, Any] = {
        "bootstrap_servers": _servers(bootstrap_servers),
        "reconnect_backoff_max_ms": _RECONNECT_BACKOFF_MAX_MS,
    }
    found |= {_KAFKA_PYTHON_NAMES[key]: known[key] for key in known.keys() & _KAFKA_PYTHON_NAMES}
    for key in known.keys() & _KAFKA_PYTHON_NUMBERS:
        found[_KAFKA_PYTHON_NUMBERS[key]] = _whole_number(key, known[key])
    if _HOST_NAME_CHECK in known:
        found["ssl_check_hostname"] = _checks_host_name(known)
    return found


def confluent_settings(bootstrap_servers: str, kafka: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of any class of confluent-kafka.

    All settings are passed on. `oauth_cb`, a function that returns a token and when it ends, is for
    the mechanism OAUTHBEARER, which no other client has.
    """
    token = {
        key: value for key, value in kafka.items() if key == OAUTH_CALLBACK and callable(value)
    }
    others = {key: value for key, value in kafka.items() if key not in token}
    found: dict[str, Any] = {**_checked(bootstrap_servers, others, has_token=bool(token)), **token}
    if _HOST_NAME_CHECK in found:
        found[_HOST_NAME_CHECK] = "https" if _checks_host_name(found) else "none"
    return {**found, "bootstrap.servers": ",".join(_servers(bootstrap_servers))}


def java_settings(
    bootstrap_servers: str, kafka: Mapping[str, str], read_text: Callable[[str], str]
) -> dict[str, str]:
    """Return the configuration of a Java client, certificates and keys included as PEM text.

    The configuration holds the text, because executors do not have the driver's files. The Java
    client warns about settings that it does not know.
    """
    known = _checked(bootstrap_servers, kafka)
    found = {key: value for key, value in known.items() if key not in _SECURITY_NAMES}
    found |= {key: known[key] for key in ("security.protocol", "sasl.mechanism") if key in known}
    if _HOST_NAME_CHECK in known:
        found[_HOST_NAME_CHECK] = "https" if _checks_host_name(known) else ""
    if "sasl.mechanism" in known:
        found["sasl.jaas.config"] = _jaas(known)
    found |= _pem_stores(known, read_text)
    return {**found, "bootstrap.servers": ",".join(_servers(bootstrap_servers))}


def spark_settings(
    bootstrap_servers: str, kafka: Mapping[str, str], read_text: Callable[[str], str]
) -> dict[str, str]:
    """Return the options of Spark's Kafka source: Java's settings with the prefix ``kafka.``."""
    found = java_settings(bootstrap_servers, kafka, read_text)
    return {f"kafka.{key}": value for key, value in found.items()}


def _checked(
    bootstrap_servers: str, kafka: Mapping[str, str], *, has_token: bool = False
) -> dict[str, str]:
    """Return the settings by their common names; refuse those that a client does not support."""
    if not _servers(bootstrap_servers):
        raise ConfigurationError(
            "bootstrap_servers is not set.",
            remedy="Name the Kafka brokers: in the file that --config names, or with "
            "--bootstrap-servers host:port.",
            key="bootstrap_servers",
        )
    known = {_SYNONYMS.get(key, key): str(value) for key, value in kafka.items()}
    supported = _SECURITY_NAMES | _OAUTH_NAMES if has_token else _SECURITY_NAMES
    for key in known:
        if key == OAUTH_CALLBACK or (key.startswith(SECURITY_PREFIXES) and key not in supported):
            raise _not_supported(key)
    if known.get("security.protocol", "PLAINTEXT") not in _PROTOCOLS:
        raise _wrong("security.protocol", _PROTOCOLS)
    mechanisms = (_OAUTH_MECHANISM,) if has_token else tuple(_LOGIN_MODULES)
    if known.get("sasl.mechanism", mechanisms[0]) not in mechanisms:
        raise _wrong("sasl.mechanism", mechanisms)
    _check_sasl(known, () if has_token else ("sasl.username", "sasl.password"))
    return known


def _check_sasl(known: Mapping[str, str], login: Collection[str]) -> None:
    if known.get("security.protocol", "").startswith("SASL"):
        for key in ("sasl.mechanism", *login):
            if key not in known:
                raise ConfigurationError(
                    f"kafka.security.protocol asks for SASL, but kafka.{key} is not set.",
                    remedy=f"Set kafka.{key}.",
                    key=f"kafka.{key}",
                )
    elif "sasl.mechanism" in known:
        raise ConfigurationError(
            "kafka.sasl.mechanism is set, but kafka.security.protocol does not ask for SASL.",
            remedy="Set kafka.security.protocol to SASL_SSL.",
            key="kafka.security.protocol",
        )


def _not_supported(key: str) -> ConfigurationError:
    names = ", ".join(sorted(_SECURITY_NAMES))
    return ConfigurationError(
        f"Not all of the Kafka clients in use support kafka.{key}.",
        remedy=_INSTEAD.get(key, f"Supported security settings: {names}."),
        key=f"kafka.{key}",
    )


def _wrong(key: str, allowed: Mapping[str, str] | tuple[str, ...]) -> ConfigurationError:
    # The value stays out of the message, because a password may end up in the wrong line.
    return ConfigurationError(
        f"kafka.{key} has a value that is not supported.",
        remedy=f"Set it to one of: {', '.join(allowed)}.",
        key=f"kafka.{key}",
    )


def _servers(bootstrap_servers: str) -> list[str]:
    servers = [server.strip() for server in bootstrap_servers.split(",") if server.strip()]
    for server in servers:
        if not _is_address(_PROTOCOL_BEFORE_HOST.sub("", server, count=1)):
            before, at, after = server.rpartition("@")
            named = f"***{at}{after}" if before else server  # a password may stand before "@"
            raise ConfigurationError(
                f"bootstrap_servers names {named!r}, which is no host:port.",
                remedy="Write host:port, [IPv6 address]:port, or several separated by commas;"
                f" a port is 1 to {_PORT_MAX}.",
                key="bootstrap_servers",
            )
    return servers


def _is_address(text: str) -> bool:
    """Return whether it is a host or an IPv6 address; with a port, the latter needs brackets.

    librdkafka takes everything and only never connects; kafka-python fails with a ValueError.
    """
    if _is_ipv6(text) and "%" not in text:
        return True
    found = _HOST_AND_PORT.fullmatch(text)
    if found is None or not text.isprintable():
        return False
    inside = found["in_brackets"] or ""
    is_host = ":" not in inside or _is_ipv6(inside)
    return is_host and (found["port"] is None or 1 <= int(found["port"]) <= _PORT_MAX)


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return True


def _whole_number(key: str, value: str) -> int:
    if not value.isdecimal():
        raise ConfigurationError(
            f"kafka.{key} is {value!r}.", remedy="It must be a whole number.", key=f"kafka.{key}"
        )
    return int(value)


def _checks_host_name(known: Mapping[str, str]) -> bool:
    """Return whether host names are checked; "none" turns it off for librdkafka, "" for Java."""
    value = known[_HOST_NAME_CHECK].lower()
    if value not in ("https", "none", ""):
        raise _wrong(_HOST_NAME_CHECK, ("https", "none"))
    return value == "https"


def _jaas(known: Mapping[str, str]) -> str:
    module = _LOGIN_MODULES[known["sasl.mechanism"]]
    name, password = _quoted(known["sasl.username"]), _quoted(known["sasl.password"])
    return f"{module} required username={name} password={password};"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _pem_stores(known: Mapping[str, str], read_text: Callable[[str], str]) -> dict[str, str]:
    found: dict[str, str] = {}
    if "ssl.ca.location" in known:
        found["ssl.truststore.type"] = "PEM"
        found["ssl.truststore.certificates"] = read_text(known["ssl.ca.location"])
    if "ssl.certificate.location" in known:
        found["ssl.keystore.type"] = "PEM"
        found["ssl.keystore.certificate.chain"] = read_text(known["ssl.certificate.location"])
    if "ssl.key.location" in known:
        found["ssl.keystore.key"] = read_text(known["ssl.key.location"])
    if "ssl.key.password" in known:
        found["ssl.key.password"] = known["ssl.key.password"]
    return found
