"""What the pipeline tells its clients: a record on the status topic.

The pipeline writes one at each start; the topic is compacted, and the last record counts.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final

STATUS_KEY: Final = b"status"


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """What holds since a start of the pipeline.

    Args:
        reject_transactions: whether new halves are refused.
        check_interval_ms: time between two check requests for the same half.
        time_ms: when the pipeline started, by its own clock.
    """

    reject_transactions: bool
    check_interval_ms: int
    time_ms: int

    def to_json(self) -> bytes:
        """Return it as the value of a record."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, value: bytes | None) -> PipelineStatus | None:
        """Return the status in a record's value; None for anything else."""
        try:
            said = json.loads(value or b"")
            return cls(
                said["reject_transactions"] is True,
                int(said["check_interval_ms"]),
                int(said["time_ms"]),
            )
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return None
