"""Decides whether cutting off its end mends a damaged checkpoint. Pure.

A batch without output may be planned again, so its torn plan can be deleted. A batch with output
must be replayed by the same plan, so that plan must be whole. Its commit can be deleted: Spark then
runs the batch again from the state before it, and the markers prevent a second writing. Cutting can
go back one batch only, because Spark replays only the newest plan.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from checkback.operations.checkpoint.verification import Verification


@dataclass(frozen=True, slots=True)
class Cut:
    """The files to delete from a checkpoint so that it is whole again.

    Args:
        files: paths relative to the checkpoint.
        last_batch: the last whole batch, None if the job begins with batch 0.
        replayed: the batch that the job runs again as planned, None if it plans a new one.
    """

    files: tuple[str, ...]
    last_batch: int | None
    replayed: int | None


def find_cut(found: Verification, files: Iterable[str]) -> Cut | None:
    """Return what to cut off, None if that does not mend the checkpoint.

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
