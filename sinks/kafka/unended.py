"""Why the brokers do not end a transaction: which topics keep them from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from confluent_kafka.admin import AdminClient

from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka.real_topics import KnownTopic, TopicDirectory
from checkback.sinks.kafka.settings import SinkSettings

TOPICS_NAMED_MAX: Final = 10


def require_endable(settings: SinkSettings, state_partition: int) -> None:
    """Refuse to wait for a transaction that the brokers can't end; do nothing if they may.

    Args:
        settings: the sink's.
        state_partition: number of the state partition.

    Raises:
        BrokerError: there are topics on which they can't end any; names them.
    """
    try:
        client = AdminClient({**settings.connection, "log_level": 0})
        known = TopicDirectory(client).find_all()
    except BrokerError:
        return
    remedies = [*_to_raise_bounds(known), *_to_bring_back(known)]
    if remedies:
        raise BrokerError(
            f"The brokers do not end the last transaction of state partition {state_partition} "
            f"({settings.transactional_id(state_partition)}).",
            remedy=" ".join(remedies),
            state_partition=state_partition,
        )


def _to_raise_bounds(known: Mapping[str, KnownTopic]) -> Iterator[str]:
    topics = [topic for topic, one in known.items() if one.rejects_markers]
    if topics:
        yield (
            f"Raise message.timestamp.before.max.ms of {_named(topics)}, then restart the brokers: "
            "with so small a bound they reject the end of their own transactions there, and try "
            "it again only after a restart."
        )


def _to_bring_back(known: Mapping[str, KnownTopic]) -> Iterator[str]:
    topics = [f"{topic} ({one.shortage})" for topic, one in known.items() if one.shortage]
    if topics:
        yield (
            f"Bring back the brokers of {_named(topics)}, or lower min.insync.replicas there: "
            "until then they can't end a transaction that wrote there; then they do by themselves."
        )


def _named(topics: list[str]) -> str:
    return ", ".join(topics[:TOPICS_NAMED_MAX])
