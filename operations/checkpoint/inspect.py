"""``checkback checkpoint inspect``: what a checkpoint holds, compared with its topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from checkback.checkpoints.files import ReadableCheckpoint
from checkback.checkpoints.own_files.running import is_pipeline_running
from checkback.checkpoints.spark_files.logs import PlannedBatch
from checkback.checkpoints.spark_files.state_files import StateFiles
from checkback.checkpoints.spark_files.state_rows import StoredPage, read_state
from checkback.operations.checkpoint.open import marker_settings, read_markers
from checkback.operations.checkpoint.verification import Verification, with_running
from checkback.operations.checkpoint.verify import verify
from checkback.operations.topics.lag import ReadPosition, read_positions, topic_ends
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import CheckpointError
from checkback.state import Page


@dataclass(slots=True)
class StateFigures:
    """Figures of one state partition.

    Args:
        page_bytes: size of the pages before Spark compresses them.
        oldest_ms: store time of the oldest pending half, None if none is pending.
    """

    state_partition: int
    pages: int = 0
    page_bytes: int = 0
    pending: int = 0
    oldest_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a checkpoint holds.

    Args:
        state: figures of each state partition, none before the first committed batch.
        committed_at_ms: time of the last committed batch, None before the first.
    """

    found: Verification
    positions: list[ReadPosition]
    state: list[StateFigures]
    file_bytes: Mapping[int, int]
    markers: Mapping[int, int]
    committed_at_ms: int | None

    def as_data(self, now_ms: int) -> dict[str, Any]:
        """Return the inspection as plain data; ages count up to ``now_ms``."""
        oldest_ms = min((one.oldest_ms for one in self.state if one.oldest_ms), default=None)
        known = [one.lag for one in self.positions if one.lag is not None]
        identity = self.found.identity
        return {
            "application_id": None if identity is None else identity.application_id,
            "is_running": self.found.is_running,
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


def inspect(settings: Settings, store: ReadableCheckpoint) -> Inspection:
    """Inspect the checkpoint in the settings; its pipeline may be running."""
    runs = is_pipeline_running(settings)
    found = with_running(verify(store), runs)
    held = read_state(store)
    committed, planned = (
        _plan(store, number) for number in (found.committed_batch, found.planned_batch)
    )
    names = settings.topics
    positions = read_positions(
        {} if committed is None else committed.ends,
        {} if planned is None else planned.ends,
        topic_ends(settings, names.read_with_relay),
    )
    partitions = found.state_partitions or 0
    sink = marker_settings(settings, found.query_id or "", found.identity)
    state = StateFiles(store, store.sizes())
    return Inspection(
        found,
        positions,
        [] if held is None else state_figures(held.pages, partitions),
        {number: state.bytes_of(number) for number in range(partitions)},
        read_markers(sink, partitions),
        None if committed is None else committed.timestamp_ms,
    )


def state_figures(pages: Iterable[StoredPage], state_partitions: int) -> list[StateFigures]:
    """Return the figures of each state partition."""
    found = [StateFigures(number) for number in range(state_partitions)]
    for stored in pages:
        if stored.state_partition >= state_partitions:
            continue  # a repartition was interrupted
        page, figures = Page.unpack(stored.blob), found[stored.state_partition]
        figures.pages += 1
        figures.page_bytes += len(stored.blob)
        figures.pending += page.pending
        if page.pending:
            known_ms = [] if figures.oldest_ms is None else [figures.oldest_ms]
            figures.oldest_ms = min([*known_ms, page.oldest_ms])
    return found


def _plan(store: ReadableCheckpoint, number: int | None) -> PlannedBatch | None:
    try:
        return None if number is None else store.planned(number)
    except CheckpointError:
        return None
