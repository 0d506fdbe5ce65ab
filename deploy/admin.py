"""An admin client with clear error messages."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from kafka.errors import AuthorizationError
from kafka.errors import KafkaError as KafkaPythonError

from checkback.protocol.connection import confluent_settings, kafka_python_settings
from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka.cluster.kafka_python_admin import Admin, new_admin_client

CONNECT_TIMEOUTS_S: Final = (2, 8)
"""Time limits of the tries to connect. The first is short, but long enough to detect a wrong
password."""
_FILES: Final = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")


@contextmanager
def admin_client(bootstrap_servers: str, kafka: Mapping[str, str]) -> Iterator[Admin]:
    """Yield an admin client, and translate its errors into Checkback's.

    Raises:
        ConfigurationError: bootstrap_servers is missing or no host:port, or a security setting is
            not supported.
        KafkaException: librdkafka does not know a setting, or refuses its value.
        BrokerError: Kafka can't be reached, or refuses what was asked.
    """
    settings = kafka_python_settings(bootstrap_servers, kafka)
    # First by librdkafka: kafka-python retries until its timeout and then reports only the timeout,
    # even where the password is wrong.
    connected_admin(bootstrap_servers, kafka)
    try:
        admin = new_admin_client(
            {**settings, "bootstrap_timeout_ms": CONNECT_TIMEOUTS_S[-1] * 1_000}
        )
        try:
            yield admin
        finally:
            admin.close()
    except AuthorizationError as error:
        raise BrokerError(
            f"Kafka at {bootstrap_servers} does not allow this user to use the admin interface.",
            remedy="Grant this user the right to describe and create the topics.",
        ) from error
    except (KafkaPythonError, OSError) as error:
        raise BrokerError(
            f"Kafka at {bootstrap_servers} failed ({type(error).__name__}).",
            remedy="Check the network and the brokers' logs.",
        ) from error


def connected_admin(bootstrap_servers: str, kafka: Mapping[str, str]) -> AdminClient:
    """Return librdkafka's admin client once brokers have answered it.

    Raises:
        ConfigurationError: bootstrap_servers is missing or no host:port, or a security setting is
            not supported.
        KafkaException: librdkafka does not know a setting, or refuses its value.
        BrokerError: Kafka can't be reached; says why.
    """
    connection = confluent_settings(bootstrap_servers, kafka)
    if not all(os.access(kafka[name], os.R_OK) for name in _FILES if name in kafka):
        raise BrokerError(
            "A file that kafka.ssl.*.location names is missing or can't be read.",
            remedy="Check kafka.ssl.ca.location, certificate.location and key.location.",
        )
    seen: list[KafkaError] = []
    # A look at a topic that is missing must not create it.
    own = {"log_level": 0, "error_cb": seen.append, "allow.auto.create.topics": False}
    client = AdminClient({**connection, **own})
    for timeout_s in CONNECT_TIMEOUTS_S:
        try:
            client.list_topics(timeout=timeout_s)
        except KafkaException:
            client.poll(0)
            if any(map(_is_final, seen)):
                break
        else:
            return client
    raise _connection_error(bootstrap_servers, seen)


def _connection_error(bootstrap_servers: str, seen: Sequence[KafkaError]) -> BrokerError:
    if any(error.code() == KafkaError._AUTHENTICATION for error in seen):
        return BrokerError(
            f"Kafka at {bootstrap_servers} refused the user name or the password.",
            remedy="Check kafka.sasl.username, kafka.sasl.password, kafka.sasl.mechanism and"
            " kafka.security.protocol.",
        )
    final = next(filter(_is_final, seen), None)
    if final is not None:
        return BrokerError(
            f"No TLS connection to Kafka at {bootstrap_servers} ({final.str()}).",
            remedy="Check kafka.ssl.ca.location, certificate.location and key.location.",
        )
    why = "".join(f" ({error.str()})" for error in seen[:1])
    return BrokerError(
        f"Kafka at {bootstrap_servers} can't be reached{why}.",
        remedy="Check bootstrap_servers, kafka.security.protocol and the network.",
    )


def _is_final(error: KafkaError) -> bool:
    """Return whether a retry is useless, because the settings are wrong."""
    return error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL) or "SSL" in error.str()
