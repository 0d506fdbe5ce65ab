"""Keeps a ledger quick to read: puts the small files of many batches together, deletes old files.

Both can run beside the job. The job only appends, and maintenance does not touch files younger than
the retention, such as those of a batch that is being written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from checkback.protocol.errors import UsageError
from checkback.sinks.ledger.table import FILE_BYTES, DeltaLedger, delta_errors

RETENTION_H: Final = 168
"""Delta's own default; below it, readers of an older version may find its files gone."""
LEAST_H: Final = 1


@dataclass(frozen=True, slots=True)
class Maintenance:
    """The result of a maintenance."""

    version: int
    files_compacted: int
    files_written: int
    files_deleted: int
    retention_hours: int


def require_safe(retention_hours: int, *, force: bool) -> None:
    """Refuse a retention so short that files could vanish while they are read or written.

    Args:
        retention_hours: age from which a file that is not needed any more is deleted.
        force: allow less than Delta's default; never less than LEAST_H.

    Raises:
        UsageError: says which bound.
    """
    least = LEAST_H if force else RETENTION_H
    if retention_hours < least:
        ways = "" if force else "; --force if no query takes so long"
        raise UsageError(
            f"A retention of {retention_hours} h is shorter than {least} h: files could be deleted "
            "while a query reads them, or a batch writes them.",
            remedy=f"Choose a longer --retention{ways}.",
        )


def maintain(ledger: DeltaLedger, retention_hours: int) -> Maintenance:
    """Compact the ledger's files, delete those that are no longer needed, and tidy its log.

    Raises:
        PrerequisiteError: the ledger can't be read or written.
    """
    table = ledger.table
    with delta_errors(ledger.path):
        compacted = table.optimize.compact(target_size=FILE_BYTES)
        deleted = table.vacuum(
            retention_hours, dry_run=False, enforce_retention_duration=False, full=True
        )
        # One version per batch: without a fresh checkpoint readers replay thousands of files.
        table.create_checkpoint()
        table.cleanup_metadata()
    return Maintenance(
        table.version(),
        int(compacted["numFilesRemoved"]),
        int(compacted["numFilesAdded"]),
        len(deleted),
        retention_hours,
    )
