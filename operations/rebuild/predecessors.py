"""Finds earlier queries over these topics by their markers, and fences them before a rebuild.

A lost checkpoint takes its query's id with it. But the query's markers are committed offsets on the
settled topic, and the name of their consumer group contains the id.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from checkback.operations.checkpoint.open import still_running
from checkback.sinks.kafka.cluster.transient_errors import broker_errors, retry_transient
from checkback.sinks.kafka.transaction.epoch import RETIRED, retire
from checkback.sinks.kafka.transaction.marker import Marker, markers_of
from checkback.sinks.settings import SinkSettings

TIMEOUT_S: Final = 20.0
MARKER_GROUP: Final = re.compile(r"(.+)-marker-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
"""SinkSettings.marker_group: the application's id, then the query's."""


@dataclass(frozen=True, slots=True)
class Predecessor:
    """An earlier query that wrote over these topics."""

    settings: SinkSettings
    markers: Mapping[int, Marker]

    @property
    def query_id(self) -> str:
        """Spark's id of the query."""
        return self.settings.query_id


def find_predecessors(own: SinkSettings, settled_partitions: int) -> list[Predecessor]:
    """Return the queries with markers on our settled topic, except those fenced for good.

    Args:
        own: the sink settings of the new query, which is left out.
    """
    found = []
    for application_id, query_id in _marker_groups(own.connection):
        if query_id == own.query_id:
            continue
        pipeline = replace(own.pipeline, application_id=application_id)
        settings = replace(own, pipeline=pipeline, query_id=query_id, epoch=0)
        markers = markers_of(settings, settled_partitions, is_hasty=True)
        found.append(Predecessor(settings, markers))
    return [one for one in found if any(it.epoch != RETIRED for it in one.markers.values())]


def require_silence(
    predecessors: Sequence[Predecessor], settled_partitions: int, watch_s: float
) -> None:
    """Refuse the rebuild while one of the queries writes, which its moving markers show.

    A running query that has nothing to write goes unnoticed here; `end_predecessors` fences it.

    Raises:
        CheckpointError: a query writes; the error names it.
        BrokerError: the brokers do not answer.
    """
    if not predecessors:
        return
    time.sleep(watch_s)
    for one in predecessors:
        if markers_of(one.settings, settled_partitions, is_hasty=True) != one.markers:
            raise still_running(f"its query {one.query_id} has just written")


def end_predecessors(predecessors: Sequence[Predecessor]) -> None:
    """Fence the queries for good, and abort the Kafka transactions that they left open."""
    for one in predecessors:
        retire(one.settings, max(one.markers) + 1)


def _marker_groups(connection: Mapping[str, Any]) -> list[tuple[str, str]]:
    admin = AdminClient({**connection})
    remedy = "Check that all brokers are up, and this user's right to describe groups."
    with broker_errors("The consumer groups can't be listed", remedy):
        names = retry_transient(lambda: _group_names(admin), TIMEOUT_S)
    matches = (MARKER_GROUP.fullmatch(name) for name in names)
    return sorted((match[1], match[2]) for match in matches if match and match[1].strip())


def _group_names(admin: AdminClient) -> list[str]:
    """Return the groups of all brokers; each tells those that it coordinates.

    A broker that says nothing may be the one with the group that has to be fenced.
    """
    listed: Any = admin.list_consumer_groups(request_timeout=TIMEOUT_S).result(2 * TIMEOUT_S)
    for error in listed.errors:
        raise error if isinstance(error, KafkaException) else KafkaException(error)
    return [group.group_id for group in listed.valid]
