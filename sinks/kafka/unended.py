"""Why the brokers do not end a transaction: which topics keep them from it."""

from __future__ import annotations

from typing import Final

from confluent_kafka.admin import AdminClient

from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka.real_topics import TopicDirectory
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
        topics = TopicDirectory(client).all_rejecting_markers()
    except BrokerError:
        return
    if topics:
        named = ", ".join(topics[:TOPICS_NAMED_MAX])
        raise BrokerError(
            f"The brokers do not end the last transaction of state partition {state_partition} "
            f"({settings.transactional_id(state_partition)}).",
            remedy=f"Raise message.timestamp.before.max.ms of {named}, then restart the brokers: "
            "with so small a bound they reject the end of their own transactions there, and try "
            "it again only after a restart.",
            state_partition=state_partition,
            topics=topics,
        )
