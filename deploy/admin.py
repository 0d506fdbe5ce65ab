"""An admin client whose errors say what is wrong."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from kafka import KafkaAdminClient
from kafka.errors import (
    AuthorizationError,
    IllegalSaslStateError,
    KafkaError,
    KafkaTimeoutError,
    RequestTimedOutError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from kafka.net.compat import KafkaNetClient

from checkback.protocol.connection import kafka_python_settings
from checkback.protocol.errors import BrokerError

CONNECT_TIMEOUTS_MS: Final = (2_000, 8_000)
"""Of the tries to connect. The first is short: a wrong password is known by then."""

Admin: TypeAlias = Any
"""A KafkaAdminClient. kafka-python 3 has no types, and those that pyright brings are of 2.x."""

_REFUSALS: Final = (
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
    IllegalSaslStateError,
)


@contextmanager
def admin_client(bootstrap_servers: str, kafka: Mapping[str, str]) -> Iterator[Admin]:
    """Give an admin client, and turn its errors into ours.

    Args:
        bootstrap_servers: host:port, separated by commas.
        kafka: settings by dotted name, as ``protocol.connection`` takes them.

    Raises:
        ConfigurationError: bootstrap_servers or a security setting is not as needed.
        BrokerError: Kafka can't be reached, or refuses what was asked.
    """
    settings = kafka_python_settings(bootstrap_servers, kafka)
    admin = _connected(bootstrap_servers, settings)
    try:
        yield admin
    except AuthorizationError as error:
        raise BrokerError(
            f"Kafka at {bootstrap_servers} does not allow this user to do that.",
            remedy="Give the user the right to describe and create the topics.",
        ) from error
    except (KafkaError, OSError) as error:
        raise BrokerError(
            f"Kafka at {bootstrap_servers} failed ({type(error).__name__}).",
            remedy="Check the network and the brokers' logs.",
        ) from error
    finally:
        admin.close()


def new_admin_client(settings: Mapping[str, Any]) -> Admin:
    """Return a connected admin client.

    Args:
        settings: kafka-python's keyword arguments.

    Raises:
        KafkaError: it does not connect. kafka-python 3.0.12 then leaves its thread running; here
            it is ended.
    """
    connections: list[KafkaNetClient] = []

    def remembered(**arguments: Any) -> KafkaNetClient:
        connections.append(KafkaNetClient(**arguments))
        return connections[-1]

    try:
        return KafkaAdminClient(**{**settings, "kafka_client": remembered})
    except BaseException:
        for connection in connections:
            connection.close()
        raise


def _connected(bootstrap_servers: str, settings: Mapping[str, Any]) -> Admin:
    with _seen_errors() as seen:
        for timeout_ms in CONNECT_TIMEOUTS_MS:
            try:
                return new_admin_client({**settings, "bootstrap_timeout_ms": timeout_ms})
            except KafkaTimeoutError:
                if any(map(_is_final, seen)) or _is_cut_off_at_login(settings, seen):
                    break
            except (KafkaError, OSError) as error:
                seen.append(error)
                break
    if _is_cut_off_at_login(settings, seen):
        seen.append(SaslAuthenticationFailedError())
    raise _connection_error(bootstrap_servers, seen)


def _connection_error(bootstrap_servers: str, seen: Sequence[BaseException]) -> BrokerError:
    # Without the cause: what a client says of its login may hold the password.
    final = next(filter(_is_final, seen), None)
    if isinstance(final, _REFUSALS):
        return BrokerError(
            f"Kafka at {bootstrap_servers} refused the user name or the password.",
            remedy="Check kafka.sasl.username, kafka.sasl.password, kafka.sasl.mechanism and"
            " kafka.security.protocol.",
        )
    if isinstance(final, (FileNotFoundError, PermissionError)):
        return BrokerError(
            "A file that kafka.ssl.*.location names is missing or can't be read.",
            remedy="Check kafka.ssl.ca.location and those of the certificate and the key.",
        )
    if final is not None:
        return BrokerError(
            f"No TLS connection to Kafka at {bootstrap_servers} ({_tls_reason(final)}).",
            remedy="Check kafka.ssl.ca.location and those of the certificate and the key.",
        )
    why = "".join(f" ({type(error).__name__})" for error in _reasons(seen)[-1:])
    return BrokerError(
        f"Kafka at {bootstrap_servers} can't be reached{why}.",
        remedy="Check bootstrap_servers, kafka.security.protocol and the network.",
    )


def _is_cut_off_at_login(settings: Mapping[str, Any], seen: Sequence[BaseException]) -> bool:
    """Tell whether the broker took each connection and then cut it off while we logged in.

    A broker answers a wrong password and hangs up. kafka-python 3.0.12 mostly notices the second
    before it has read the first.
    """
    errors = _reasons(seen)
    return (
        str(settings.get("security_protocol")).startswith("SASL")
        and bool(errors)
        and all("socket disconnected" in str(error) for error in errors)
    )


def _reasons(seen: Sequence[BaseException]) -> list[BaseException]:
    """Return the errors but for those which say that our own time for connecting was over."""
    return [one for one in seen if not isinstance(one, (KafkaTimeoutError, RequestTimedOutError))]


def _is_final(error: BaseException) -> bool:
    """Tell whether trying again can't help: the settings are wrong."""
    return isinstance(error, (*_REFUSALS, FileNotFoundError, PermissionError)) or bool(
        _tls_reason(error)
    )


def _tls_reason(error: BaseException) -> str:
    """Return OpenSSL's name of what went wrong, "" for any other error."""
    found = re.search(r"\[SSL: (\w+)\]", str(error))
    return found[1] if found else ""


@contextmanager
def _seen_errors() -> Iterator[list[BaseException]]:
    """Collect the errors that kafka-python meets while it connects.

    It tries again until the time is over and then tells of the timeout alone; why it failed, even
    a wrong password, it only logs, as an exception among the record's arguments.
    """
    witness = _Witness()
    logger = logging.getLogger("kafka")
    logger.addHandler(witness)
    try:
        yield witness.seen
    finally:
        logger.removeHandler(witness)


class _Witness(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the exceptions among the record's arguments."""
        if isinstance(record.args, tuple):
            self.seen += [one for one in record.args if isinstance(one, BaseException)]
