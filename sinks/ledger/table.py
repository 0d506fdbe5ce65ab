"""The ledger: a Delta table with one row per transaction event, written once by the driver.

Kafka comes first: a batch's tasks have written and committed before its rows get here. The rows
carry the batch's number as Delta's application transaction. So a batch that Spark replays, because
the job died before Spark's own commit, finds its number in the table and writes nothing.

It is written by delta-rs (the `deltalake` package), in the driver and not by Spark: a million rows
took Spark 10-20 s of processor time and delta-rs 0.4 s, a commit of a few rows takes 10 ms, and
no second use of the batch is needed (SPARK-47329). The table is an ordinary one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Final

import pyarrow as pa
from deltalake import (
    CommitProperties,
    DeltaTable,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import DeltaError, DeltaProtocolError

from checkback.protocol.errors import (
    CheckpointError,
    ConfigurationError,
    NotFoundError,
    PrerequisiteError,
)
from checkback.sinks.ledger.rows import LEDGER_SCHEMA, LedgerBatch, unpacked

PANIC: Final = "PanicException"
"""delta-rs raises it, for example where no file can be opened. It is no Exception, and can't be
imported."""
PARTITION_COLUMN: Final = "day"
TABLE_NAME: Final = "checkback ledger"
TABLE_PROPERTIES: Final = {
    # Statistics of these columns only. By default they are of every column, and most of the log in
    # a table with a small file per batch.
    "delta.dataSkippingStatsColumns": "half_partition,half_offset,event_time",
    "delta.checkpointInterval": "100",
    # Each commit lists the log, which takes 8 µs for every kept file on a local disk.
    "delta.logRetentionDuration": "interval 2 hours",
}
FILE_BYTES: Final = 128 * 1024 * 1024
COMPACT_EVERY: Final = 100
"""Number of batches between two compactions by the job itself. A commit took 78 µs for each file of
the table; after a day with a batch every second, each commit would take 6 s."""
COMPACT_BYTES: Final = 8 * 1024 * 1024
"""The job does not compact files from this size on, but `checkback ledger maintain` does:
compacting them again and again would write a day's data a hundred times."""


@dataclass(frozen=True, slots=True)
class LedgerOwner:
    """The owner of a ledger: its offsets are those of one half topic.

    Args:
        half_topic_id: Kafka's id of the half topic; a recreated topic has another.
    """

    application_id: str
    half_topic_id: str


@dataclass(slots=True)
class DeltaLedger:
    """An open ledger."""

    path: str
    table: DeltaTable
    _written: dict[str, int] = field(default_factory=dict)
    _uncompacted: int = 0

    @classmethod
    def open(cls, path: str) -> DeltaLedger:
        """Open an existing ledger.

        Raises:
            NotFoundError: there is none.
            PrerequisiteError: the path can't be read.
        """
        with delta_errors(path):
            if not DeltaTable.is_deltatable(path):
                raise NotFoundError(
                    f"There is no ledger at {path}.",
                    remedy="Name the `ledger` of a pipeline that ran; `checkback run` makes it.",
                    ledger=path,
                )
            return cls(path, DeltaTable(path))

    @classmethod
    def open_or_create(cls, path: str, owner: LedgerOwner) -> DeltaLedger:
        """Open the owner's ledger; create it if it is missing.

        Raises:
            ConfigurationError: the table there is another's, or no ledger.
            PrerequisiteError: the path can't be written.
        """
        with delta_errors(path):
            if not DeltaTable.is_deltatable(path):
                DeltaTable.create(
                    path,
                    LEDGER_SCHEMA,
                    partition_by=[PARTITION_COLUMN],
                    name=TABLE_NAME,
                    # Table properties of other names than Delta's are not taken by all writers.
                    description=json.dumps(asdict(owner)),
                    configuration={**TABLE_PROPERTIES},
                )
            ledger = cls(path, DeltaTable(path))
        ledger._require_owner(owner)
        return ledger

    def last_batch(self, query_id: str) -> int | None:
        """Return the last batch of that query with rows here, None before the first.

        Looked up once: if another process writes under the query's name, the next append fails.
        """
        if query_id not in self._written:
            with delta_errors(self.path):
                self.table.update_incremental()
                found = self.table.transaction_version(transaction_name(query_id))
            if found is None:
                return None
            self._written[query_id] = found
        return self._written[query_id]

    def append(self, batch: LedgerBatch, blobs: Sequence[bytes]) -> bool:
        """Write a batch's rows, all or none; return whether they were still missing.

        Args:
            batch: which it is; the last one's number is taken as written.
            blobs: rows as `sinks.ledger.rows.packed` packs them; without any, nothing is written.

        Raises:
            CheckpointError: a later batch is written.
            PrerequisiteError: the table can't be written; the batch may be given again.
        """
        if not blobs:
            return False
        self.require_not_ahead(batch.query_id, batch.batch_id)
        if self.last_batch(batch.query_id) == batch.batch_id:
            return False
        transaction = Transaction(transaction_name(batch.query_id), batch.batch_id)
        with delta_errors(self.path):
            write_deltalake(
                self.table,
                pa.RecordBatchReader.from_batches(LEDGER_SCHEMA, unpacked(blobs)),
                mode="append",
                target_file_size=FILE_BYTES,
                writer_properties=WriterProperties(compression="ZSTD"),
                commit_properties=CommitProperties(app_transactions=[transaction]),
            )
        self._written[batch.query_id] = batch.batch_id
        self._uncompacted += 1
        if self._uncompacted >= COMPACT_EVERY:
            self._compact()
        return True

    def require_not_ahead(self, query_id: str, planned: int) -> None:
        """Refuse a checkpoint that has not planned what is written here: it is an older copy.

        The next batches of such a checkpoint would have numbers that the table already holds with
        other contents, and would be left out.

        Raises:
            CheckpointError: a later batch is written.
        """
        written = self.last_batch(query_id)
        if written is not None and written > planned:
            raise CheckpointError(
                f"The ledger at {self.path} has batch {written} of this checkpoint, which has "
                f"planned no batch after {planned}: the checkpoint is an older copy.",
                remedy="Use the newest checkpoint; if it is lost, run `checkback checkpoint "
                "rebuild`: see `checkback docs recovering`.",
                written=written,
                planned=planned,
            )

    def _compact(self) -> None:
        """Compact small files; leave it to a later batch if another process compacts."""
        self._uncompacted = 0
        with suppress(DeltaError):
            self.table.optimize.compact(target_size=COMPACT_BYTES)

    def _require_owner(self, owner: LedgerOwner) -> None:
        found = self.table.metadata().description or ""
        if found != json.dumps(asdict(owner)):
            raise ConfigurationError(
                f"The table at {self.path} is not the ledger of application {owner.application_id} "
                f"and its half topic: it says {found or 'nothing'!r}.",
                remedy="Set `ledger` to a path of its own.",
                key="ledger",
            )


def transaction_name(query_id: str) -> str:
    """Return Delta's name for the batches of a query; no other query writes under it."""
    return f"checkback-ledger-{query_id}"


@contextmanager
def delta_errors(path: str) -> Iterator[None]:
    """Raise delta-rs' errors about a path as one sentence."""
    try:
        yield
    except BaseException as error:
        is_known = isinstance(error, (DeltaError, DeltaProtocolError, OSError))
        if not is_known and type(error).__name__ != PANIC:
            raise
        raise PrerequisiteError(
            f"The ledger at {path} can't be read or written: {' '.join(str(error).split())}",
            remedy="Look at the path, its rights and its room; see `checkback docs ledger`.",
            ledger=path,
        ) from error
