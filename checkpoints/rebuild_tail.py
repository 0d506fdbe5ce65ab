"""Whether a damaged checkpoint can be mended by cutting its end off. Pure.

A batch of which nothing was written may be planned anew, so a plan that is torn may go. A batch
that was written has to be replayed by the same plan, so its plan must be whole; its commit may go,
for Spark then runs it again from the state before it, and the markers keep it from being written
twice. More than one step back is not possible: Spark replays the newest plan only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from checkback.checkpoints.verification import Verification


@dataclass(frozen=True, slots=True)
class Cut:
    """What has to go from a checkpoint so that it is whole again.

    Args:
        files: relative to the checkpoint.
        last_batch: the last whole batch, None where the job begins with batch 0.
        replayed: the batch that the job runs again as it was planned, None if it plans a new one.
    """

    files: tuple[str, ...]
    last_batch: int | None
    replayed: int | None


def find_cut(found: Verification, files: Iterable[str]) -> Cut | None:
    """Return what to cut off, None where that does not mend it.

    Args:
        found: the verification, with the markers.
        files: every file of the checkpoint, relative to it.
    """
    last = -1 if found.whole_batch is None else found.whole_batch
    replayed = last + 1
    committed = -1 if found.committed_batch is None else found.committed_batch
    written = -1 if found.written_batch is None else found.written_batch
    if found.is_whole or found.markers is None or committed > replayed:
        return None
    names = set(files)
    plan = f"offsets/{replayed}"
    plan_is_whole = plan in names and not _is_faulty(found, plan)
    first_plan_to_go = replayed + 1 if plan_is_whole else replayed
    going = {f"commits/{replayed}"} | {
        name for name in names if _number(name, "offsets") >= first_plan_to_go
    }
    if written > (replayed if plan_is_whole else last):
        return None
    replays_state = plan_is_whole and committed == replayed
    for problem in found.problems:
        mended = problem.file in going or (problem.code == "state" and replays_state)
        if not mended:
            return None
    return Cut(
        tuple(sorted(going & names)),
        found.whole_batch,
        replayed if plan_is_whole else None,
    )


def _is_faulty(found: Verification, file: str) -> bool:
    return any(problem.file == file for problem in found.problems)


def _number(name: str, log: str) -> int:
    folder, _, number = name.partition("/")
    return int(number) if folder == log and number.isdigit() else -1
