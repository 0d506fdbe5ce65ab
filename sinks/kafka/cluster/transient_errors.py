"""Transient broker errors, and retrying them.

librdkafka asks again by itself when it sends and fetches records. A caller's request it mostly
sends once, and it does not say that the error would pass: `KafkaError.retriable()` is about
transactions only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka.transaction.errors import cause_of

Result = TypeVar("Result")

PAUSE_S: Final = 0.2
LEADER_MOVES: Final = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError._TRANSPORT,
    }
)
"""What brokers answer while a partition gets another leader, or a new topic its first one. A
consumer asks again by itself then (Kafka's RetriableException); librdkafka's admin client does not.
"""
COORDINATOR_MOVES: Final = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    }
)
"""What brokers answer while a group gets another coordinator, or it is about to write an offset."""
PASSING: Final = LEADER_MOVES | COORDINATOR_MOVES | {KafkaError.NOT_CONTROLLER}
NO_ANSWER: Final = "no answer in time"
NO_CONNECTION: Final = "there is no connection to the brokers"
_OF_CONNECTION: Final = {
    KafkaError._TRANSPORT: NO_CONNECTION,
    KafkaError._ALL_BROKERS_DOWN: NO_CONNECTION,
    KafkaError._TIMED_OUT: NO_ANSWER,
}
"""Codes of passing states that librdkafka itself notices, without an answer of a broker."""


def is_transient(error: BaseException, codes: Collection[int] = PASSING) -> bool:
    """Return whether what was raised is a state that passes by itself."""
    return isinstance(error, KafkaException) and cause_of(error).code() in codes


def retry_transient(
    ask: Callable[[], Result],
    retry_s: float,
    pause: Callable[[float], object] = lambda seconds: time.sleep(seconds),
    codes: Collection[int] = PASSING,
) -> Result:
    """Return what `ask` returns; ask again while it raises a state that passes by itself.

    Args:
        codes: of those states.

    Raises:
        KafkaException: the last one that `ask` raised; other exceptions, such as TimeoutError, are
            not caught.
    """
    until_s = time.monotonic() + retry_s
    while True:
        try:
            return ask()
        except KafkaException as error:
            if not is_transient(error, codes) or time.monotonic() >= until_s:
                raise
        pause(PAUSE_S)


def renew_metadata(admin: Any, timeout_s: float) -> None:
    """Have librdkafka replace what it has cached: the controller, leaders and their epochs.

    Its admin client uses them for minutes after a broker has died or come back: it asks a dead
    controller, and sends an epoch that the leader refuses. Asking again alone does not help.
    """
    with suppress(KafkaException):  # the next request says what is wrong
        admin.list_topics(timeout=timeout_s)


def said_by(error: KafkaException | TimeoutError) -> str:
    """Return what went wrong, for a sentence: a future raises one or the other."""
    if isinstance(error, TimeoutError):
        return NO_ANSWER
    cause = cause_of(error)
    return _OF_CONNECTION.get(cause.code()) or cause.str()


@contextmanager
def broker_errors(says: str, remedy: str, **fields: object) -> Iterator[None]:
    """Raise a client's error inside the block as a BrokerError; the cause stands behind `says`."""
    try:
        yield
    except (KafkaException, TimeoutError) as error:
        raise BrokerError(f"{says}: {said_by(error)}.", remedy=remedy, **fields) from error


def listed_topics(client: Any, timeout_s: float, retry_s: float | None = None) -> dict[str, Any]:
    """Return all topics by name: asking for one by its name makes some brokers create it.

    Args:
        client: any client of confluent-kafka.
        timeout_s: bounds the request.
        retry_s: for how long to ask again, by default as long.

    Raises:
        BrokerError: the brokers do not answer, or refuse.
    """
    remedy = "Check the brokers, and this user's rights; `checkback doctor` says what is wrong."
    with broker_errors("The topics can't be listed", remedy):
        found: dict[str, Any] = retry_transient(
            lambda: client.list_topics(timeout=timeout_s).topics,
            timeout_s if retry_s is None else retry_s,
        )
        return found
