"""Remembering verdicts for a while, so that late repeats and contradictions are told apart."""

from __future__ import annotations

from typing import Final

import numpy as np

from checkback.state.draft import Draft
from checkback.state.page import SettledOffsets
from checkback.state.transitions import Phase

MEMORY_STEPS: Final = 64
"""A time of forgetting is rounded up to the next 1/64 of ``verdict_memory_ms``. Without that, a
page whose offsets were settled in a thousand batches would wake a thousand times to forget them."""


def forget_at_ms(now_ms: int, verdict_memory_ms: int) -> int:
    """Return after which time a verdict given now is forgotten; the same for every page size."""
    step_ms = max(1, verdict_memory_ms // MEMORY_STEPS)
    return -(-(now_ms + verdict_memory_ms) // step_ms) * step_ms


def remember_verdicts(draft: Draft) -> None:
    """Note when the verdicts of this batch are to be forgotten."""
    if not draft.settled_now:
        return
    index = np.concatenate(draft.settled_now)
    forget_at = forget_at_ms(draft.now_ms, draft.rules.verdict_memory_ms)
    times = draft.settled.forget_at_ms
    found = np.flatnonzero(times == forget_at)
    place = int(found[0]) if len(found) else len(times)
    if not len(found):
        times = np.append(times, forget_at)
    epoch = draft.settled.epoch.copy()
    epoch[index] = place
    draft.settled = SettledOffsets(_verdicts(draft), epoch, times)


def forget_verdicts(draft: Draft) -> None:
    """Forget the verdicts whose time is over."""
    settled = draft.settled
    if not len(settled.forget_at_ms):
        return
    is_over = settled.forget_at_ms < draft.now_ms
    if not is_over.any():
        return
    draft.phase[(settled.verdict != 0) & is_over[settled.epoch]] = Phase.ABSENT
    place_after = (np.cumsum(~is_over) - 1).clip(0).astype(np.uint16)
    epoch = place_after[settled.epoch]
    draft.settled = SettledOffsets(_verdicts(draft), epoch, settled.forget_at_ms[~is_over])


def _verdicts(draft: Draft) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.where(draft.phase == Phase.PENDING, np.uint8(0), draft.phase)


def next_forget_ms(settled: SettledOffsets) -> int:
    """Return when the next verdicts are to be forgotten."""
    return int(settled.forget_at_ms.min())
