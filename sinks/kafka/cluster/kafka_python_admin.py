"""kafka-python's admin client, for what librdkafka's does not ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from kafka import KafkaAdminClient
from kafka.net.compat import KafkaNetClient

Admin: TypeAlias = Any
"""A KafkaAdminClient. kafka-python 3 has no types, and pyright's stubs are for 2.x."""


def new_admin_client(settings: Mapping[str, Any]) -> Admin:
    """Return a connected admin client.

    Raises:
        KafkaError: the client does not connect. kafka-python 3.0.12 then leaves its thread running;
            this function ends the thread.
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
