"""Counts the starts that failed to finish a batch; the second one reads it in small polls.

Brokers take compressed records whose bodies are a thousand times as large as what they store. The
Kafka client unpacks a whole poll at once, so a few hundred such records do not fit into a JVM's
heap: without small polls the job would end at every start over the same batch
(docs/benchmarks.md#kept).
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Final

from checkback.checkpoints.store import CheckpointStore
from checkback.metrics.log_lines import facts

FILE: Final = "retried.json"
CAREFUL_FROM: Final = 2
"""Starts that found the batch planned: the first may follow any crash, and should be fast."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RetriedBatch:
    """The batch that a start found planned and not done.

    Args:
        number: Spark's number of it.
        starts: how many starts have found it so, including this one.
    """

    number: int
    starts: int

    @property
    def needs_care(self) -> bool:
        """Whether it is to be read in small polls."""
        return self.starts >= CAREFUL_FROM

    def is_done(self, last_batch: int | None) -> bool:
        """Tell whether it has been written.

        Args:
            last_batch: the last batch that this run has written, None before any.
        """
        return last_batch is not None and last_batch >= self.number


def count_start(store: CheckpointStore) -> RetriedBatch | None:
    """Count this start among those that found the last batch planned and not done.

    Returns:
        That batch; None where the last one that was planned is done.

    Raises:
        PrerequisiteError: the checkpoint can't be written.
    """
    planned, done = store.last_batch("offsets"), store.last_batch("commits")
    if planned is None or planned == done:
        return None
    found = RetriedBatch(planned, _starts_before(store, planned) + 1)
    store.replace_own(FILE, json.dumps({"batch": planned, "starts": found.starts}))
    if found.needs_care:
        _log.warning(
            "%d starts have found batch %d begun: it is read in small polls, until it is done",
            found.starts,
            planned,
            extra=facts(batch_id=planned),
        )
    return found


def _starts_before(store: CheckpointStore, batch: int) -> int:
    try:
        said = json.loads(store.read_own(FILE) or "{}")
        return int(said["starts"]) if said["batch"] == batch else 0
    except (ValueError, TypeError, KeyError):  # a count that can't be read begins again
        return 0
