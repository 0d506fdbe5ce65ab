"""What Spark says of its batches: its event log, which any Spark writes when two settings ask it.

The job's own progress lines say what the job did; how long each batch took, and each part of it,
Spark itself says the same way of the job and of the baselines.
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
    """Return the Spark settings that make it write its event log into a folder.

    Args:
        folder: exists; for one run of Spark.
    """
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.absolute().as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of a query.

    Args:
        batch_id: its number.
        started_ms: milliseconds since 1970.
        took_ms: from its trigger to its end.
        rows: records read; control records of transactions are none.
        parts_ms: how long each part took, by Spark's names.
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
    """The batches in an event log that is being written.

    Args:
        folder: the event log's.
    """

    folder: Path
    batches: list[Batch] = field(default_factory=list)
    _read_bytes: int = 0

    def read(self) -> list[Batch]:
        """Take in what was written since the last call; return all batches so far."""
        for file in sorted(self.folder.glob("*"))[:1]:
            with file.open("rb") as log:
                log.seek(self._read_bytes)
                for line in log:
                    if not line.endswith(b"\n"):
                        break  # it is being written
                    self._read_bytes += len(line)
                    if PROGRESS in line[:200]:
                        self.batches.append(batch_of(json.loads(line)["progress"]))
        return self.batches


def batch_of(progress: Mapping[str, Any]) -> Batch:
    """Return the batch that a progress event tells of."""
    parts: dict[str, int] = progress["durationMs"]
    started = datetime.fromisoformat(progress["timestamp"])
    return Batch(
        progress["batchId"],
        round(started.timestamp() * 1_000),
        parts.get("triggerExecution", 0),
        sum(source["numInputRows"] for source in progress["sources"]),
        parts,
    )
