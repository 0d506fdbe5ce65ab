"""What is pending, from the ledger, in tables in memory that follow it.

A page of a million pending transactions took 1.2 to 1.9 s with delta-rs' own SQL and 0.6 to 0.7 s
with DuckDB, as both read the whole ledger each time. So the console reads it once into DuckDB, then
only new batches (docs/operating/console.md has the times).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from checkback.operations.positions import Position
from checkback.protocol.errors import CheckbackError, PrerequisiteError
from checkback.sinks.ledger.table import DeltaLedger, delta_errors
from checkback.sinks.ledger.view import PENDING_SQL

LOOK_BACK_MS: Final = 600_000
"""A batch's time may lie before its predecessor's: clocks are set back."""
FIRST_LOOK_S: Final = 30.0
READ_COLUMNS: Final = (
    "event", "transaction_id", "producer_group", "real_topic", "half_partition", "half_offset",
    "store_time", "event_time", "check_times", "reason", "batch_id", "query_id",
)  # fmt: skip

SORTS: Final[Mapping[str, str]] = {
    "age": "store_ms, half_partition, half_offset",
    "newest": "store_ms DESC, half_partition, half_offset",
    "checks": "check_times DESC, store_ms",
    "group": "producer_group, store_ms",
    "topic": "real_topic, store_ms",
    "id": "transaction_id, store_ms",
}
"""The orders of a page, by the name that its address has."""

_TABLES: Final = """
CREATE TABLE pending (transaction_id VARCHAR, producer_group VARCHAR, real_topic VARCHAR,
  half_partition INTEGER, half_offset BIGINT, store_ms BIGINT, check_times INTEGER,
  asked_ms BIGINT);
CREATE TABLE tallies (minute_ms BIGINT, event VARCHAR, reason VARCHAR, rows BIGINT);
CREATE TABLE seen (query_id VARCHAR PRIMARY KEY, batch_id BIGINT);
"""
_APPLY: Final = (
    """DELETE FROM pending USING source WHERE source.event IN
       ('committed', 'rolled_back', 'discarded')
       AND source.half_partition = pending.half_partition
       AND source.half_offset = pending.half_offset""",
    """UPDATE pending SET check_times = asked.check_times, asked_ms = asked.asked_ms FROM (
         SELECT half_partition, half_offset, max(check_times) AS check_times,
                epoch_ms(max(event_time)) AS asked_ms
         FROM source WHERE event = 'checked' GROUP BY ALL) AS asked
       WHERE asked.half_partition = pending.half_partition
       AND asked.half_offset = pending.half_offset""",
    f"""INSERT INTO pending SELECT transaction_id, producer_group, real_topic, half_partition,
         half_offset, epoch_ms(store_time), check_times, epoch_ms(asked_time)
       FROM ({PENDING_SQL.format(table="source")})""",  # noqa: S608 - constants
    """INSERT INTO tallies SELECT epoch_ms(date_trunc('minute', event_time)), event,
         coalesce(reason, ''), count(*) FROM source GROUP BY ALL""",
    """INSERT INTO seen SELECT query_id, max(batch_id) FROM source GROUP BY ALL
       ON CONFLICT DO UPDATE SET batch_id = greatest(seen.batch_id, excluded.batch_id)""",
)
"""From rows of whole batches, called `source`, to the tables."""


@dataclass(frozen=True, slots=True)
class PendingFilter:
    """Chooses pending transactions; an empty field chooses all.

    Args:
        group: producer group.
        topic: real topic.
        stored_until_ms: the half was stored at this time or before.
    """

    group: str = ""
    topic: str = ""
    stored_until_ms: int | None = None

    def condition(self) -> tuple[str, list[object]]:
        """Return it as SQL, and the values of its parameters."""
        said = {"producer_group = ?": self.group, "real_topic = ?": self.topic}
        parts: list[tuple[str, object]] = [one for one in said.items() if one[1]]
        if self.stored_until_ms is not None:
            parts.append(("store_ms <= ?", self.stored_until_ms))
        return " AND ".join(["true", *(sql for sql, _ in parts)]), [value for _, value in parts]


@dataclass(frozen=True, slots=True)
class PendingPage:
    """A page of pending transactions.

    Args:
        rows: by the names of the columns.
        total: how many the filter chooses.
    """

    rows: list[dict[str, Any]]
    total: int


def unread_rows(newest_ms: int, seen: Mapping[str, int]) -> pc.Expression:
    """Return which rows of the ledger the tables do not hold yet.

    Chosen while the files are read: ten minutes of a busy pipeline are millions of rows.

    Args:
        newest_ms: the latest time of a row that they hold.
        seen: by query, the last batch that they hold.
    """
    since = pa.scalar((newest_ms - LOOK_BACK_MS) * 1_000, pa.timestamp("us", "UTC"))
    wanted = pc.field("event_time") >= since
    for query_id, batch_id in seen.items():
        wanted &= (pc.field("query_id") != query_id) | (pc.field("batch_id") > batch_id)
    return wanted


@dataclass(slots=True)
class LedgerView:
    """Reads one ledger; several threads may ask at once.

    Args:
        path: the ledger's.
    """

    path: str
    _ledger: DeltaLedger | None = None
    _version: int = -1
    _newest_ms: int = 0
    _db: Any = field(default_factory=duckdb.connect)
    _lock: Lock = field(default_factory=Lock)
    _failure: CheckbackError | None = None
    _has_looked: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        self._db.execute("SET TimeZone = 'UTC'")
        self._db.execute(_TABLES)

    def refresh(self) -> bool:
        """Read the batches that were written since the last time; return whether there were any.

        Raises:
            NotFoundError: there is no ledger at the path.
            PrerequisiteError: it can't be read.
        """
        try:
            with self._lock, delta_errors(self.path):
                is_new = self._look()
        except CheckbackError as error:
            self._failure = error
            raise
        else:
            self._failure = None
        finally:
            self._has_looked.set()
        return is_new

    def _look(self) -> bool:
        ledger, self._ledger = self._ledger, None  # opened again after an error
        if ledger is None:
            ledger = DeltaLedger.open(self.path)
        else:
            ledger.table.update_incremental()
        self._ledger, version = ledger, ledger.table.version()
        if version == self._version:
            return False
        self._read_since()
        self._version = version
        return True

    @property
    def version(self) -> int:
        """The ledger's version that the tables hold, -1 before the first look."""
        return self._version

    def page(self, chosen: PendingFilter, sort: str, first: int, most: int) -> PendingPage:
        """Return a page of what is pending.

        Args:
            chosen: which.
            sort: one of SORTS.
            first: the number of rows to leave out.
            most: how many rows at most.

        Raises:
            CheckbackError: the ledger was not read yet, or can't be read.
        """
        where, values = chosen.condition()
        order = SORTS[sort]
        # Sorted by row number first: whole rows would have to be sorted for a late page.
        rows = self._rows(
            "SELECT * FROM pending WHERE rowid IN ("  # noqa: S608 - constants and parameters
            f"SELECT rowid FROM pending WHERE {where} ORDER BY {order} LIMIT ? OFFSET ?"
            f") ORDER BY {order}",
            [*values, most, first],
        )
        counted = self._rows(f"SELECT count(*) AS total FROM pending WHERE {where}", values)  # noqa: S608
        return PendingPage(rows, counted[0]["total"])

    def groups(self) -> list[dict[str, Any]]:
        """Return what is pending by group: ``pending``, ``oldest_ms``, ``asked_again``."""
        return self._rows(
            "SELECT coalesce(producer_group, '') AS producer_group, count(*) AS pending, "
            "min(store_ms) AS oldest_ms, count_if(check_times > 1) AS asked_again "
            "FROM pending GROUP BY ALL ORDER BY pending DESC, producer_group"
        )

    def topics(self) -> list[str]:
        """Return the real topics that something pending is for."""
        found = self._rows("SELECT DISTINCT real_topic FROM pending WHERE real_topic IS NOT NULL")
        return sorted(row["real_topic"] for row in found)

    def totals(self) -> dict[str, int]:
        """Return how many rows the ledger has of each event."""
        found = self._rows("SELECT event, sum(rows)::BIGINT AS n FROM tallies GROUP BY event")
        return {row["event"]: row["n"] for row in found}

    def by_reason(self, event: str) -> dict[str, int]:
        """Return how many refused or discarded rows the ledger has of each reason."""
        found = self._rows(
            "SELECT reason, sum(rows)::BIGINT AS n FROM tallies WHERE event = ? GROUP BY reason "
            "ORDER BY n DESC, reason",
            [event],
        )
        return {row["reason"]: row["n"] for row in found}

    def positions(self, transaction_id: str) -> list[Position]:
        """Return the positions of the halves with that transaction id."""
        where = pc.field("transaction_id") == transaction_id
        found = self._scan(where, ["half_partition", "half_offset"])
        places = {
            Position(row["half_partition"], row["half_offset"])
            for row in found
            if row["half_offset"] is not None
        }
        return sorted(places)

    def events(self, at: Position) -> list[dict[str, Any]]:
        """Return the ledger's rows about a half, in the order of time."""
        where = (pc.field("half_partition") == at.partition) & (
            pc.field("half_offset") == at.offset
        )
        found = self._scan(where, list(READ_COLUMNS))
        return sorted(found, key=lambda row: (row["event_time"], row["event"] != "prepared"))

    def _scan(self, where: pc.Expression, columns: Sequence[str]) -> list[dict[str, Any]]:
        self.require_read()
        with self._lock, delta_errors(self.path):
            source = self._dataset()
        with delta_errors(self.path):
            rows: list[dict[str, Any]] = source.to_table(columns, where).to_pylist()
        return rows

    def _rows(self, statement: str, values: Sequence[object] = ()) -> list[dict[str, Any]]:
        self.require_read()
        found = self._db.cursor().execute(statement, list(values))
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    def require_read(self) -> None:
        """Wait for the first look.

        Raises:
            CheckbackError: it is not over yet, or found no ledger that can be read.
        """
        if not self._has_looked.wait(FIRST_LOOK_S):
            raise PrerequisiteError(
                f"The ledger at {self.path} has not been read yet.",
                remedy="Wait a moment; if this stays, see what the console prints.",
            )
        if self._version < 0 and self._failure is not None:
            raise self._failure

    def _dataset(self) -> Any:
        assert self._ledger is not None  # noqa: S101 - it was read
        table = self._ledger.table
        return table.to_pyarrow_dataset(filesystem=_native_filesystem(table.table_uri))

    def _unread(self, cursor: Any) -> Any:
        source = self._dataset()
        if self._version >= 0:
            seen = cursor.execute("SELECT query_id, batch_id FROM seen").fetchall()
            return source.to_table(list(READ_COLUMNS), unread_rows(self._newest_ms, dict(seen)))
        if isinstance(source.filesystem, fs.PyFileSystem):
            return source.to_table(list(READ_COLUMNS))
        return source

    def _read_since(self) -> None:
        """Add the rows of batches that the tables do not hold; all of them or none."""
        cursor = self._db.cursor()
        cursor.register("source", self._unread(cursor))
        cursor.begin()
        try:
            for statement in _APPLY:
                cursor.execute(statement)
            cursor.commit()
        except duckdb.Error:
            cursor.rollback()
            raise
        newest = cursor.execute("SELECT max(epoch_ms(event_time)) FROM source").fetchone()
        self._newest_ms = max(self._newest_ms, (newest and newest[0]) or 0)


def _native_filesystem(uri: str) -> fs.FileSystem | None:
    """Return Arrow's own access to a folder; None for an object store, which delta-rs reads.

    DuckDB begins to read a dataset with Python's lock held (`Scanner.to_reader` of pyarrow 26).
    Where a thread of Arrow opens a file by Python at that moment, each waits for the other's lock
    and the process stands still. So DuckDB gets no dataset whose files Python opens.
    """
    if not uri.startswith("file:"):
        return None
    local, path = fs.FileSystem.from_uri(uri)
    return fs.SubTreeFileSystem(path, local)
