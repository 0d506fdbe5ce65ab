"""A batch that a start plans itself: how its query reads, and how its plan is written."""

from __future__ import annotations

from dataclasses import dataclass

from checkback.checkpoints.spark_files.logs import Offsets, plan_with_ends
from checkback.checkpoints.store import CheckpointStore


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One batch that is planned already, and how its query reads.

    Args:
        drops_topic: whether Spark would take the plan for lost data: it has a topic less than the
            one before, or begins with one that has lost its first records.
        batch: its number. Where another job has finished it meanwhile, Spark plans the next one,
            which the run must not carry out.
    """

    topics: tuple[str, ...]
    drops_topic: bool
    batch: int


def create_plan(store: CheckpointStore, batch: int, ends: Offsets, now_ms: int) -> bool:
    """Create the plan after a batch; return False if another job has planned there.

    Args:
        ends: where the plan reads to.
        now_ms: the plan's time.
    """
    text = store.read(f"offsets/{batch}").decode()
    plan = plan_with_ends(text, ends, timestamp_ms=now_ms)
    return store.create(f"offsets/{batch + 1}", plan)
