"""Finds whether a batch has output already: a restart must finish it under the same terms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from checkback.sinks.kafka.transaction.marker import markers_of
from checkback.sinks.settings import SinkSettings

if TYPE_CHECKING:
    from checkback.sinks.ledger.table import DeltaLedger


def is_begun(sink: SinkSettings, partitions: int, ledger: DeltaLedger | None, batch: int) -> bool:
    """Return whether Kafka or the ledger has anything of a batch."""
    # A batch with nothing but halves sets no marker.
    last = None if ledger is None else ledger.last_batch(sink.query_id)
    if last is not None and last >= batch:
        return True
    return any(marker.has_any_of(batch) for marker in markers_of(sink, partitions).values())
