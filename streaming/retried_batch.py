"""Decides at a start whether the run reads in small polls: if starts failed to finish a batch.

Brokers take compressed records whose bodies are a thousand times as large as what they store. The
Kafka client unpacks a whole poll at once, so a few hundred such records do not fit into a JVM's
heap: without small polls the job would end at every start over the same batch.
"""

from __future__ import annotations

import json
import logging
from typing import Final

from checkback.checkpoints.store import CheckpointStore
from checkback.metrics.log_lines import facts

FILE: Final = "retried.json"
SMALL_FROM: Final = 2
"""Starts that found the batch planned: the first may follow any crash, and should be fast."""
_log = logging.getLogger(__name__)


def needs_small_polls(store: CheckpointStore) -> bool:
    """Count this start among those that found the last batch planned and not done.

    Raises:
        PrerequisiteError: the checkpoint can't be written.
    """
    planned, done = store.last_batch("offsets"), store.last_batch("commits")
    if planned is None or planned == done:
        return False
    starts = _starts_before(store, planned) + 1
    store.replace_own(FILE, json.dumps({"batch": planned, "starts": starts}))
    if starts < SMALL_FROM:
        return False
    _log.warning(
        "%d starts have found batch %d begun: this run reads in small polls; the next start after"
        " the batch is done reads at full speed",
        starts,
        planned,
        extra=facts(batch_id=planned),
    )
    return True


def _starts_before(store: CheckpointStore, batch: int) -> int:
    try:
        said = json.loads(store.read_own(FILE) or "{}")
        return int(said["starts"]) if said["batch"] == batch else 0
    except (ValueError, TypeError, KeyError):  # a count that can't be read begins again
        return 0
