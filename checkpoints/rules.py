"""The history of the rules in a checkpoint; a replayed batch decides by the rules of its own time.

Every start writes a file of its own, ``rules/<epoch>.json``, with its rules and those before, the
newest 32. The file with the highest epoch counts, so a fenced older job that still writes its file
changes nothing. No start replaces the file of another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from checkback.checkpoints.files import OUR_FOLDER, ReadableCheckpoint
from checkback.protocol.errors import CheckpointError
from checkback.state import Rules, RulesHistory

if TYPE_CHECKING:  # the console reads checkpoints where Spark is not installed
    from checkback.checkpoints.store import CheckpointStore

FOLDER: Final = "rules"
FILES_KEPT: Final = 10
"""How many files are kept. Only the newest is read; the older ones are for people who inspect the
checkpoint."""
REMEDY: Final = (
    "Restore it from a backup, or run `checkback checkpoint rebuild`; see "
    "`checkback docs recovering`."
)


def file_of(epoch: int) -> str:
    """Return the name of the file that the start with this epoch writes."""
    return f"{FOLDER}/{epoch}.json"


def read_rules(store: CheckpointStore) -> RulesHistory:
    """Return the rules by time; an empty history for a checkpoint that never planned a batch.

    Raises:
        CheckpointError: a batch is planned, but the rules for it are gone or can't be read.
    """
    numbers = store.own_numbers(FOLDER)
    if numbers:
        return RulesHistory.from_json(store.read_own(file_of(numbers[-1])) or "")
    planned = store.last_batch("offsets")
    if planned is not None:
        raise CheckpointError(
            f"{store.path} has planned batch {planned}, and the rules that it is decided by are "
            f"gone: no file is left in checkback/{FOLDER}.",
            remedy=REMEDY,
            planned_batch=planned,
        )
    return RulesHistory(())


def recorded_rules(store: ReadableCheckpoint) -> RulesHistory:
    """Return the rules by time, without Spark; an empty history where none are recorded."""
    start = f"{OUR_FOLDER}/{FOLDER}/"
    names = [name.removeprefix(start) for name in store.sizes() if name.startswith(start)]
    numbers = [int(stem) for name in names if (stem := name.removesuffix(".json")).isdecimal()]
    text = store.read_own(file_of(max(numbers))) if numbers else None
    return RulesHistory(()) if text is None else RulesHistory.from_json(text)


def record_rules(store: CheckpointStore, epoch: int, now_ms: int, rules: Rules) -> RulesHistory:
    """Record that these rules hold from now on, and return the whole history.

    An already planned batch keeps its timestamp, so a replay decides by the old rules. If the clock
    was set back since then, the new rules begin after that timestamp and hold once the clock
    reaches it.

    Args:
        store: the checkpoint.
        epoch: this start's epoch.
        now_ms: the time from which the rules hold.
        rules: this start's rules.

    Raises:
        CheckpointError: as for `read_rules`, or another start has recorded its rules under the same
            epoch.
    """
    history = read_rules(store)
    planned = store.last_batch("offsets")
    after_ms = now_ms if planned is None else max(now_ms, store.planned_at_ms(planned) + 1)
    changed = history.with_rules(after_ms, rules)
    if planned is None and epoch in store.own_numbers(FOLDER):
        # No batch depends on this file yet: the checkpoint never ran, its markers expired, and the
        # epochs began again at the same number.
        store.delete_own(file_of(epoch))
    if not store.create_own(file_of(epoch), changed.to_json()):
        raise CheckpointError(
            f"Epoch {epoch} has already recorded its rules in {store.path}: the batch markers, "
            "which hold the epoch, were lost, or this is a copy of another checkpoint.",
            remedy="Run `checkback checkpoint rebuild`; see `checkback docs recovering`.",
            epoch=epoch,
        )
    for number in store.own_numbers(FOLDER)[:-FILES_KEPT]:
        store.delete_own(file_of(number))
    return changed
