"""Finds why the brokers do not end a transaction, and waits for lost replicas."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from checkback.protocol.connection import kafka_python_settings
from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka.cluster.topic_directory import KnownTopic, TopicDirectory
from checkback.sinks.kafka.transaction.errors import cause_of
from checkback.sinks.kafka.transaction.init import initialise
from checkback.sinks.settings import SinkSettings

_log = logging.getLogger(__name__)

TOPICS_NAMED_MAX: Final = 10
ANSWER_MS_MAX: Final = 10_000
ENDING: Final = frozenset({"PrepareCommit", "PrepareAbort"})
"""States of a transaction that the coordinator has decided, but not ended in all its partitions."""


@dataclass(frozen=True, slots=True)
class ShortTopic:
    """A topic on which the brokers can't end a transaction, until its replicas are back."""

    topic: str
    shortage: str

    def __str__(self) -> str:
        return f"{self.topic} ({self.shortage})"


def replica_remedy(short: Sequence[ShortTopic]) -> str:
    """Return what to do about topics that lack replicas, to follow a colon."""
    named = ", ".join(map(str, short[:TOPICS_NAMED_MAX]))
    return f"bring back the brokers of {named}, or lower min.insync.replicas there"


def initialise_once_ended(
    producer: Producer,
    settings: SinkSettings,
    state_partition: int,
    timeout_s: float,
    look: Callable[[], object],
) -> None:
    """Initialise a producer; wait for as long as lost replicas keep its id's transaction open.

    Args:
        timeout_s: how long the brokers may take to end a transaction that nothing keeps open.
        look: called between two tries; it raises an error to end the wait.

    Raises:
        BrokerError: the brokers can't end the transaction, and never will by themselves.
        KafkaException: they do not do it, or refuse it.
    """
    while True:
        try:
            initialise(producer, settings.topics.half, timeout_s)
        except KafkaException as error:
            if cause_of(error).code() != KafkaError.CONCURRENT_TRANSACTIONS:
                raise
            short = require_endable(settings, state_partition)
            if not short:
                raise
            _log.warning(
                "State partition %d waits until the brokers can end its last transaction. %s",
                state_partition,
                _to_bring_back(short),
            )
        else:
            return
        with suppress(BrokerError):  # the next try says more
            look()


def require_endable(settings: SinkSettings, state_partition: int) -> list[ShortTopic]:
    """Return the topics that lack replicas and so keep a transaction from ending.

    Raises:
        BrokerError: the transaction will never end by itself; the error names the topics.
    """
    name = settings.transactional_id(state_partition)
    try:
        bounded, short = _obstacles(settings, topics_not_ended(settings.connection, [name]))
    except BrokerError:
        return []
    if bounded:
        raise BrokerError(
            "The brokers do not end the last transaction of state partition "
            f"{state_partition} ({name}).",
            remedy=f"Raise {', '.join(bounded[:TOPICS_NAMED_MAX])}, then restart the brokers: with "
            "so small a bound they reject the end of their own transactions there, and try it "
            f"again only after a restart. {_to_bring_back(short) if short else ''}".rstrip(),
            state_partition=state_partition,
        )
    return short


def short_topics(settings: SinkSettings, state_partitions: int) -> list[ShortTopic]:
    """Return the topics that lack replicas and so keep the pipeline's transactions from ending."""
    names = [settings.transactional_id(number) for number in range(state_partitions)]
    awaited = topics_not_ended(settings.connection, names)
    try:
        return _obstacles(settings, awaited)[1] if awaited else []
    except BrokerError:
        return []


def topics_not_ended(
    connection: Mapping[str, Any], transactional_ids: Collection[str]
) -> set[str] | None:
    """Return the topics on which decided transactions are not ended yet.

    Returns:
        The topics; None where the brokers do not tell, because they are older than Kafka 3.0 or the
        caller lacks the right to know.
    """
    # Not in every sink process: it is needed on bad days only.
    from kafka.errors import KafkaError as KafkaPythonError

    from checkback.sinks.kafka.cluster.kafka_python_admin import new_admin_client

    known = kafka_python_settings(connection["bootstrap.servers"], connection)
    try:
        with closing(new_admin_client({**known, "request_timeout_ms": ANSWER_MS_MAX})) as admin:
            described = admin.describe_transactions(transactional_ids)
    except (KafkaPythonError, OSError, ValueError):
        return None
    ending = [one for one in described.values() if one.state.value in ENDING]
    if any(not one.topic_partitions for one in ending):
        return None
    return {place.topic for one in ending for place in one.topic_partitions}


def _obstacles(
    settings: SinkSettings, awaited: set[str] | None
) -> tuple[list[str], list[ShortTopic]]:
    """Return which topics' bounds reject ends of transactions, and which topics lack replicas.

    Args:
        awaited: the topics that may be meant. None: any; then a lack of replicas counts before a
            bound, because it passes.

    Raises:
        BrokerError: the topics can't be listed.
    """
    client = AdminClient({**settings.connection})
    found: dict[str, KnownTopic] = TopicDirectory(client).find_all()
    known = found if awaited is None else {one: found[one] for one in sorted(awaited & {*found})}
    short = [ShortTopic(topic, one.shortage) for topic, one in known.items() if one.shortage]
    bounded = [
        f"{' and '.join(one.transaction_end_bounds)} of {topic}"
        for topic, one in known.items()
        if one.transaction_end_bounds
    ]
    return ([] if short and awaited is None else bounded), short


def _to_bring_back(short: list[ShortTopic]) -> str:
    return (
        "The brokers can't end a transaction on a topic that lacks replicas; once it has them, "
        f"they do so by themselves: {replica_remedy(short)}."
    )
