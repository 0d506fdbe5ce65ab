"""Finds whether a batch has output already: a restart must finish it under the same terms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from checkback.sinks.kafka.transaction.marker import MarkerStore
from checkback.sinks.settings import SinkSettings

if TYPE_CHECKING:
    from checkback.sinks.ledger.table import DeltaLedger


def is_begun(sink: SinkSettings, partitions: int, ledger: DeltaLedger | None, batch: int) -> bool:
    """Return whether Kafka or the ledger has anything of a batch."""
    return is_in_ledger(ledger, sink.query_id, batch) or is_written(sink, partitions, batch)


def is_in_ledger(ledger: DeltaLedger | None, query_id: str, batch: int) -> bool:
    """Return whether the ledger has a batch's rows; one with nothing but halves sets no marker."""
    last = None if ledger is None else ledger.last_batch(query_id)
    return last is not None and last >= batch


def is_written(sink: SinkSettings, partitions: int, batch: int) -> bool:
    """Return whether a state partition has written a batch."""
    markers = MarkerStore(sink)
    try:
        found = markers.read(list(range(partitions)))
    finally:
        markers.close()
    return any(marker.has_any_of(batch) for marker in found.values())
