"""Reads the duration of batches from Spark's event log, which two settings turn on.

The job's progress lines report what the job did. The event log reports how long each batch and its
parts took, in the same way for the job and the baselines.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

PROGRESS: Final = b"StreamingQueryListener$QueryProgressEvent"


def event_log_settings(folder: Path) -> dict[str, str]:
    """Return the Spark settings that write the event log into a folder.

    Args:
        folder: an existing folder, used for one run of Spark.
    """
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.absolute().as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }


@dataclass(frozen=True, slots=True)
class MeasuredBatch:
    """One batch of a query.

    Args:
        batch_id: its number.
        started_ms: milliseconds since 1970.
        took_ms: duration from its trigger to its end.
        rows: number of records read, without control records of transactions.
        parts_ms: duration of each part, by Spark's names.
    """

    batch_id: int
    started_ms: int
    took_ms: int
    rows: int
    parts_ms: Mapping[str, int] = field(default_factory=dict)

    @property
    def ended_ms(self) -> int:
        """When it ended, milliseconds since 1970."""
        return self.started_ms + self.took_ms


@dataclass(slots=True)
class EventLog:
    """The batches in an event log that Spark is still writing.

    Args:
        folder: the event log's folder.
    """

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
                        self.batches.append(batch_of(json.loads(line)["progress"]))
        return self.batches


def batch_of(progress: Mapping[str, Any]) -> MeasuredBatch:
    """Return the batch of a progress event."""
    parts: dict[str, int] = progress["durationMs"]
    started = datetime.fromisoformat(progress["timestamp"])
    return MeasuredBatch(
        progress["batchId"],
        round(started.timestamp() * 1_000),
        parts.get("triggerExecution", 0),
        sum(source["numInputRows"] for source in progress["sources"]),
        parts,
    )
