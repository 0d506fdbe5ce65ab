"""An admin client with clear error messages."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka.admin import AdminClient
from kafka.errors import (
    AuthorizationError,
    IllegalSaslStateError,
    KafkaError,
    KafkaTimeoutError,
    RequestTimedOutError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)

from checkback.protocol.connection import (
    SECURITY_PREFIXES,
    confluent_settings,
    kafka_python_settings,
)
from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka.cluster.kafka_python_admin import Admin, new_admin_client

CONNECT_TIMEOUTS_MS: Final = (2_000, 8_000)
"""Time limits of the tries to connect. The first is short, but long enough to detect a wrong
password."""

_REFUSALS: Final = (
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
    IllegalSaslStateError,
)


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
    _let_librdkafka_check(confluent_settings(bootstrap_servers, kafka))
    admin = _connected(bootstrap_servers, settings)
    try:
        yield admin
    except AuthorizationError as error:
        raise BrokerError(
            f"Kafka at {bootstrap_servers} does not allow this user to use the admin interface.",
            remedy="Grant this user the right to describe and create the topics.",
        ) from error
    except (KafkaError, OSError) as error:
        raise BrokerError(
            f"Kafka at {bootstrap_servers} failed ({type(error).__name__}).",
            remedy="Check the network and the brokers' logs.",
        ) from error
    finally:
        admin.close()


def _let_librdkafka_check(known: Mapping[str, str]) -> None:
    """Refuse what librdkafka refuses: kafka-python never sees a misspelt setting.

    Nothing connects, because this client gets no brokers. It gets no security settings either:
    their names are checked already, and kafka-python explains a wrong file better.
    """
    left_out = (*SECURITY_PREFIXES, "bootstrap.servers")
    plain = {key: value for key, value in known.items() if not key.startswith(left_out)}
    AdminClient({"log_level": 0, **plain})


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
    # Without the cause, because a client's login error may contain the password.
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
            remedy="Check kafka.ssl.ca.location, certificate.location and key.location.",
        )
    if final is not None:
        return BrokerError(
            f"No TLS connection to Kafka at {bootstrap_servers} ({_tls_reason(final)}).",
            remedy="Check kafka.ssl.ca.location, certificate.location and key.location.",
        )
    why = "".join(f" ({type(error).__name__})" for error in _reasons(seen)[-1:])
    return BrokerError(
        f"Kafka at {bootstrap_servers} can't be reached{why}.",
        remedy="Check bootstrap_servers, kafka.security.protocol and the network.",
    )


def _is_cut_off_at_login(settings: Mapping[str, Any], seen: Sequence[BaseException]) -> bool:
    """Return whether the broker accepted each connection and then closed it during the login.

    A broker that gets a wrong password sends an error and closes the connection. kafka-python
    3.0.12 mostly notices the closing before it has read the error. Its own time for connecting may
    end in the middle of a login.
    """
    errors = [one for one in _reasons(seen) if "Connection timed out" not in str(one)]
    return (
        str(settings.get("security_protocol")).startswith("SASL")
        and bool(errors)
        and all("socket disconnected" in str(error) for error in errors)
    )


def _reasons(seen: Sequence[BaseException]) -> list[BaseException]:
    """Return the errors without those that only report the timeout for connecting."""
    return [one for one in seen if not isinstance(one, (KafkaTimeoutError, RequestTimedOutError))]


def _is_final(error: BaseException) -> bool:
    """Return whether a retry is useless, because the settings are wrong."""
    return isinstance(error, (*_REFUSALS, FileNotFoundError, PermissionError)) or bool(
        _tls_reason(error)
    )


def _tls_reason(error: BaseException) -> str:
    """Return OpenSSL's name of the error, "" for an error of another kind."""
    found = re.search(r"\[SSL: (\w+)\]", str(error))
    return found[1] if found else ""


@contextmanager
def _seen_errors() -> Iterator[list[BaseException]]:
    """Collect the errors that kafka-python gets while it connects.

    kafka-python retries until its timeout and then reports only the timeout. It just logs the
    causes, even a wrong password, as exceptions among the log record's arguments.
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
