"""The batches of a query, from Spark's event log, and rates of those after the warm-up.

The job's progress lines report what the job did. The event log, which two settings turn on, reports
how long each batch and its parts took, in the same way for the job and the baselines.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from checkback.protocol.errors import UsageError

PROGRESS: Final = b"StreamingQueryListener$QueryProgressEvent"
SCRAP: Final = 0.1
"""A last batch smaller than this share of the median is a remainder and does not count."""


def event_log_settings(folder: Path) -> dict[str, str]:
    """Return the Spark settings that write the event log into a folder, used for one run only."""
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.absolute().as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }


@dataclass(frozen=True, slots=True)
class MeasuredBatch:
    """One batch of a query."""

    batch_id: int
    started_ms: int
    took_ms: int
    rows: int

    @property
    def ended_ms(self) -> int:
        """When it ended, milliseconds since 1970."""
        return self.started_ms + self.took_ms


@dataclass(slots=True)
class EventLog:
    """The batches in an event log that Spark is still writing."""

    folder: Path
    batches: list[MeasuredBatch] = field(default_factory=list)
    _read_bytes: int = 0

    def read(self) -> list[MeasuredBatch]:
        """Read what was written since the last call; return all batches so far."""
        for file in sorted(self.folder.glob("*"))[:1]:
            with file.open("rb") as log:
                log.seek(self._read_bytes)
                for line in log:
                    if not line.endswith(b"\n"):
                        break  # Spark is still writing this line
                    self._read_bytes += len(line)
                    if PROGRESS in line[:200]:
                        self.batches.append(_batch_of(json.loads(line)["progress"]))
        return self.batches


def _batch_of(progress: Mapping[str, Any]) -> MeasuredBatch:
    return MeasuredBatch(
        progress["batchId"],
        round(datetime.fromisoformat(progress["timestamp"]).timestamp() * 1_000),
        progress["durationMs"].get("triggerExecution", 0),
        sum(source["numInputRows"] for source in progress["sources"]),
    )


@dataclass(frozen=True, slots=True)
class Steady:
    """The measured part of a run: its batches after the warm-up, without a remainder at the end."""

    batches: Sequence[MeasuredBatch]

    @property
    def rows(self) -> int:
        """Number of records read."""
        return sum(batch.rows for batch in self.batches)

    @property
    def from_ms(self) -> int:
        """When the first batch began."""
        return self.batches[0].started_ms

    @property
    def to_ms(self) -> int:
        """When the last batch ended."""
        return self.batches[-1].ended_ms


def steady_part(batches: Sequence[MeasuredBatch], warm_up: float) -> Steady:
    """Return the part of a run after its warm-up.

    Raises:
        UsageError: there are too few batches to leave one out.
    """
    full = [batch for batch in batches if batch.rows]
    least = SCRAP * statistics.median(batch.rows for batch in full) if full else 0.0
    while len(full) > 1 and full[-1].rows < least:
        full.pop()
    total, read = sum(batch.rows for batch in full), 0
    for number, batch in enumerate(full):
        read += batch.rows
        # A batch may be a few records below its limit, because Spark divides the limit among
        # partitions. That must not make the warm-up one batch longer than in the comparison's run.
        if read >= warm_up * total - least:
            counted = full[number + 1 :]
            break
    else:
        counted = []
    if not counted:
        raise UsageError(
            f"{len(full)} full batches are too few to measure.",
            remedy="Let a batch read less (--batch-events), or send more (--transactions).",
        )
    return Steady(counted)


def median_ms(batches: Sequence[MeasuredBatch]) -> float:
    """Return the median duration of the batches.

    Raises:
        ValueError: there is no batch.
    """
    if not batches:
        raise ValueError("no batch to measure")
    return float(statistics.median(batch.took_ms for batch in batches))


def touching(batches: Sequence[MeasuredBatch], from_ms: float, to_ms: float) -> list[MeasuredBatch]:
    """Return the batches that are at least partly within a span of time."""
    return [batch for batch in batches if batch.started_ms < to_ms and batch.ended_ms > from_ms]
