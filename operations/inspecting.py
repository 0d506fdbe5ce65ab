"""``checkback checkpoint inspect``: what a checkpoint holds, beside what its topics hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from checkback.checkpoints.files import FolderFiles, files_of
from checkback.checkpoints.folder import CheckpointFolder
from checkback.checkpoints.inspection import (
    ReadPosition,
    StateFigures,
    read_positions,
    read_state_figures,
)
from checkback.checkpoints.logs import BrokenLogError, PlannedBatch, parse_offsets
from checkback.checkpoints.state_files import StateFiles
from checkback.checkpoints.verification import Verification, verify
from checkback.operations.checkpoint_files import marker_settings, read_markers
from checkback.protocol.configuration import Settings
from checkback.protocol.connection import confluent_settings
from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka_error import cause_of

TIMEOUT_S: Final = 20.0
LOOKS: Final = 3


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a checkpoint holds.

    Args:
        found: batches, owner, what is wrong.
        positions: how far each partition of the half and op topics is read.
        state: figures of each state partition, none before the first committed batch.
        file_bytes: what the state's files take up, by state partition.
        markers: next batch by state partition.
        committed_at_ms: time of the last committed batch, None before the first.
    """

    found: Verification
    positions: list[ReadPosition]
    state: list[StateFigures]
    file_bytes: Mapping[int, int]
    markers: Mapping[int, int]
    committed_at_ms: int | None

    def as_data(self, now_ms: int) -> dict[str, Any]:
        """Return it as plain data; ages are told from ``now_ms``."""
        oldest_ms = min((one.oldest_ms for one in self.state if one.oldest_ms), default=None)
        known = [one.lag for one in self.positions if one.lag is not None]
        identity = self.found.identity
        return {
            "application_id": None if identity is None else identity.application_id,
            "query_id": self.found.query_id,
            "page_size": None if identity is None else identity.page_size,
            "state_partitions": self.found.state_partitions,
            "planned_batch": self.found.planned_batch,
            "committed_batch": self.found.committed_batch,
            "committed_at_ms": self.committed_at_ms,
            "lag": sum(known) if known else None,
            "pending": sum(one.pending for one in self.state),
            "oldest_pending_ms": None if oldest_ms is None else max(0, now_ms - oldest_ms),
            "positions": [{**asdict(one), "lag": one.lag} for one in self.positions],
            "state": [
                {
                    **asdict(one),
                    "file_bytes": self.file_bytes[one.state_partition],
                    "next_batch": self.markers.get(one.state_partition),
                }
                for one in self.state
            ],
            "problems": [asdict(one) for one in self.found.problems],
            "read_at_ms": now_ms,
        }


def inspect(settings: Settings, folder: CheckpointFolder) -> Inspection:
    """Look into the checkpoint in the settings; it may be at work meanwhile.

    Raises:
        BrokerError: the brokers do not answer, or refuse.
    """
    files = files_of(folder.spark, folder.path)
    found = _verified(files)
    committed, planned = (
        _plan(files, number) for number in (found.committed_batch, found.planned_batch)
    )
    names = settings.topics
    positions = read_positions(
        {} if committed is None else committed.ends,
        {} if planned is None else planned.ends,
        topic_ends(settings, [names.half, names.op]),
    )
    partitions = found.state_partitions or 0
    sink = marker_settings(settings, found.query_id or "", found.identity)
    state = StateFiles(files, files.sizes())
    return Inspection(
        found,
        positions,
        [] if found.committed_batch is None else read_state_figures(folder, partitions),
        {number: state.bytes_of(number) for number in range(partitions)},
        read_markers(sink, partitions),
        None if committed is None else committed.timestamp_ms,
    )


def topic_ends(settings: Settings, topics: list[str]) -> dict[tuple[str, int], int]:
    """Return where each partition ends for a reader of committed records.

    Raises:
        BrokerError: the brokers do not answer, or refuse.
    """
    connection = confluent_settings(settings.bootstrap_servers, settings.kafka)
    # Untyped: its stubs do not know what listing offsets gives.
    admin: Any = AdminClient({**connection, "log_level": 2})
    try:
        known = admin.list_topics(timeout=TIMEOUT_S).topics
        places = [
            TopicPartition(topic, number)
            for topic in topics
            if topic in known
            for number in known[topic].partitions
        ]
        asked = admin.list_offsets(
            {one: OffsetSpec.latest() for one in places},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=TIMEOUT_S,
        )
        return {
            (one.topic, one.partition): future.result(TIMEOUT_S).offset
            for one, future in asked.items()
        }
    except (KafkaException, TimeoutError) as error:
        why = cause_of(error).str() if isinstance(error, KafkaException) else "timed out"
        raise BrokerError(
            f"The ends of the topics can't be read: {why}.",
            remedy="Check the brokers, and the rights on the topics.",
        ) from error


def _verified(files: FolderFiles) -> Verification:
    """Look again where something is wrong: at work, files come and go during a look."""
    for _ in range(LOOKS - 1):
        found = verify(files)
        if found.is_whole:
            return found
    return verify(files)


def _plan(files: FolderFiles, number: int | None) -> PlannedBatch | None:
    if number is None:
        return None
    try:
        return parse_offsets(files.read(f"offsets/{number}"))
    except BrokenLogError:
        return None
