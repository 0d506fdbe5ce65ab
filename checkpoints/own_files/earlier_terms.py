"""The terms of a begun batch in a checkpoint from before the notes of terms (commit 641b9cc).

Such a checkpoint has the same facts in four folders: ``rules`` by time, ``access`` by the number of
a batch, ``held_back`` and ``half_bounds`` by batch. Read only at the first start over it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from checkback.checkpoints.files import NOT_AS_WRITTEN, damaged_file
from checkback.checkpoints.own_files.batch_terms import AccessVersion, BatchTerms, op_ranges_of
from checkback.checkpoints.spark_files.logs import PlannedBatch
from checkback.state import Rules

if TYPE_CHECKING:
    from checkback.checkpoints.store import CheckpointStore

RULES: Final = "rules"
ACCESS: Final = "access"
HIDDEN: Final = "held_back"
OP_RANGES: Final = "half_bounds"


def earlier_terms(
    store: CheckpointStore, batch: int, plan: PlannedBatch, before: PlannedBatch | None
) -> BatchTerms | None:
    """Return the terms that a batch was begun with; None where the checkpoint has no rules."""
    history = _newest(store, RULES)
    if history is None:
        return None
    try:
        rules = _rules_at(history, plan.timestamp_ms)
        hidden = _hidden(store, batch, plan, before, int(rules["batch_events_max"]))
        ranges = op_ranges_of(_op_ranges(store, batch, plan.timestamp_ms))
        access = earlier_access(store) or AccessVersion()
        return BatchTerms(Rules.from_stored(rules), access, hidden, ranges)
    except NOT_AS_WRITTEN as error:
        raise damaged_file(f"{RULES}, {HIDDEN} or {OP_RANGES}", error) from error


def earlier_access(store: CheckpointStore) -> AccessVersion | None:
    """Return the rules of access that were recorded last, None where none ever were."""
    found = _newest(store, ACCESS)
    return None if found is None else AccessVersion(str(found["version"]), str(found["salt"]))


def was_cut(plan: PlannedBatch, before: PlannedBatch, batch_events_max: int) -> bool:
    """Return whether the limit may have cut a batch, so that it did not reach the topics' ends.

    Spark gives each partition its share of the limit by what is unread in it, rounded down, but at
    least one offset (KafkaMicroBatchStream.rateLimit, 4.2.0): a batch that was cut is smaller than
    the limit by less than one offset for each partition with records, and a second one where the
    share is computed a little too small.
    """
    sizes = [
        end - before.ends.get(topic, {}).get(partition, 0)
        for topic, partitions in plan.ends.items()
        for partition, end in partitions.items()
    ]
    with_records = sum(size > 0 for size in sizes)
    return with_records > 0 and sum(sizes) + 2 * with_records > batch_events_max


def _rules_at(history: Mapping[str, Any], now_ms: int) -> dict[str, Any]:
    entries = history["entries"]
    in_force = entries[0]["rules"]
    for entry in entries:
        if int(entry["from_ms"]) <= now_ms:
            in_force = entry["rules"]
    return dict(in_force)


def _hidden(
    store: CheckpointStore,
    batch: int,
    plan: PlannedBatch,
    before: PlannedBatch | None,
    batch_events_max: int,
) -> frozenset[int]:
    if before is None:
        return frozenset()  # nothing counts as read anyway
    if was_cut(plan, before, batch_events_max):
        return frozenset(number for partitions in plan.ends.values() for number in partitions)
    note = _of(store, HIDDEN, batch)
    until_ms = min(before.timestamp_ms, plan.timestamp_ms)
    is_of_plan = note is not None and int(note["read_until_ms"]) == until_ms
    return (
        frozenset(int(number) for number in note["partitions"])
        if note and is_of_plan
        else frozenset()
    )


def _op_ranges(store: CheckpointStore, batch: int, planned_ms: int) -> Mapping[str, Any]:
    for number in sorted(store.own_numbers(OP_RANGES), reverse=True):
        note = _of(store, OP_RANGES, number) if number <= batch else None
        if note is not None and (number < batch or int(note["planned_ms"]) == planned_ms):
            return dict(note["halves"])
    return {}


def _newest(store: CheckpointStore, folder: str) -> dict[str, Any] | None:
    numbers = store.own_numbers(folder)
    return _of(store, folder, numbers[-1]) if numbers else None


def _of(store: CheckpointStore, folder: str, number: int) -> dict[str, Any] | None:
    name = f"{folder}/{number}.json"
    text = store.read_own(name)
    try:
        return None if text is None else dict(json.loads(text))
    except NOT_AS_WRITTEN as error:
        raise damaged_file(name, error) from error
