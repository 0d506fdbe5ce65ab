"""The queries that wrote over these topics before: found by their markers, ended before a rebuild.

When the checkpoint is lost so is the query's id; but its markers are committed offsets on the
settled topic, and the name of their consumer group tells whose they are.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from checkback.protocol.errors import BrokerError, CheckpointError
from checkback.sinks.kafka_error import cause_of
from checkback.sinks.marker import Marker, MarkerStore
from checkback.sinks.session import RETIRED, retire
from checkback.sinks.settings import SinkSettings

TIMEOUT_S: Final = 20.0
MARKER_GROUP: Final = re.compile(r"(.+)-marker-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
"""SinkSettings.marker_group: the application's id, then the query's."""


@dataclass(frozen=True, slots=True)
class Predecessor:
    """A query that wrote over these topics.

    Args:
        settings: those that its sink had, as far as fencing goes.
        markers: by state partition.
    """

    settings: SinkSettings
    markers: Mapping[int, Marker]

    @property
    def is_retired(self) -> bool:
        """Tell whether nobody can write for it any more."""
        return all(marker.session == RETIRED for marker in self.markers.values())

    @property
    def query_id(self) -> str:
        """Spark's id of the query."""
        return self.settings.query_id


def find_predecessors(own: SinkSettings, settled_partitions: int) -> list[Predecessor]:
    """Return the queries with markers on our settled topic, retired ones left out.

    Args:
        own: names the topics and reaches the brokers; its own query is left out.
        settled_partitions: of the settled topic.

    Raises:
        BrokerError: the brokers do not answer, or refuse.
    """
    found = []
    for application_id, query_id in _marker_groups(own.connection):
        if query_id == own.query_id:
            continue
        settings = SinkSettings(
            application_id,
            query_id,
            own.topic_prefix,
            own.connection,
            own.transaction_timeout_ms,
            own.message_bytes_max,
        )
        found.append(Predecessor(settings, _markers(settings, settled_partitions)))
    return [one for one in found if one.markers and not one.is_retired]


def require_silence(
    predecessors: Sequence[Predecessor], settled_partitions: int, watch_s: float
) -> None:
    """Refuse to go on while one of them writes: its markers move.

    One that lives and has nothing to write can't be seen here; `end_predecessors` ends it.

    Raises:
        CheckpointError: names the query.
        BrokerError: the brokers do not answer.
    """
    if not predecessors:
        return
    time.sleep(watch_s)
    for one in predecessors:
        if _markers(one.settings, settled_partitions) != one.markers:
            raise still_running(f"its query {one.query_id} has just written")


def still_running(sign: str) -> CheckpointError:
    """Return the refusal to rebuild under a job that lives."""
    return CheckpointError(
        f"The job still runs: {sign}.", remedy="Stop it with SIGTERM first, then try again."
    )


def end_predecessors(predecessors: Sequence[Predecessor]) -> None:
    """Let none of them write ever again; what they left open is aborted.

    Raises:
        BrokerError: Kafka did not take it.
    """
    for one in predecessors:
        retire(one.settings, max(one.markers) + 1)


def _marker_groups(connection: Mapping[str, Any]) -> list[tuple[str, str]]:
    admin = AdminClient({**connection, "log_level": 2})
    try:
        listed = admin.list_consumer_groups(request_timeout=TIMEOUT_S).result(2 * TIMEOUT_S)
    except KafkaException as error:
        raise BrokerError(
            f"The consumer groups can't be listed: {cause_of(error).str()}.",
            remedy="Check the brokers, and that this user may describe groups.",
        ) from error
    matches = (MARKER_GROUP.fullmatch(group.group_id) for group in listed.valid)
    return sorted((match[1], match[2]) for match in matches if match)


def _markers(settings: SinkSettings, partitions: int) -> dict[int, Marker]:
    store = MarkerStore(settings)
    try:
        return store.read(list(range(partitions)))
    finally:
        store.close()
