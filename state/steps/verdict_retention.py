"""Remembers verdicts for a while: a late repeat is ignored, a contradiction refused."""

from __future__ import annotations

from typing import Final

import numpy as np

from checkback.state.page.page import SettledOffsets
from checkback.state.page.page_builder import PageBuilder
from checkback.state.transitions import Phase

RETENTION_STEPS: Final = 64
"""A time of forgetting is rounded up to the next 1/64 of ``verdict_retention_ms``. Without that, a
page with offsets settled in a thousand batches would wake a thousand times to forget them."""


def forget_at_ms(now_ms: int, verdict_retention_ms: int) -> int:
    """Return after which time a verdict given now is forgotten; the same for every page size."""
    step_ms = max(1, verdict_retention_ms // RETENTION_STEPS)
    return -(-(now_ms + verdict_retention_ms) // step_ms) * step_ms


def remember_verdicts(builder: PageBuilder) -> None:
    """Note when the page has to forget the verdicts of this batch."""
    if not builder.settled_now:
        return
    index = np.concatenate(builder.settled_now)
    forget_at = forget_at_ms(builder.now_ms, builder.rules.verdict_retention_ms)
    times = builder.settled.forget_at_ms
    found = np.flatnonzero(times == forget_at)
    place = int(found[0]) if len(found) else len(times)
    if not len(found):
        times = np.append(times, forget_at)
    forget_slot = builder.settled.forget_slot.copy()
    forget_slot[index] = place
    builder.settled = SettledOffsets(_verdicts(builder), forget_slot, times)


def forget_verdicts(builder: PageBuilder) -> None:
    """Forget the verdicts older than the verdict retention."""
    settled = builder.settled
    if not len(settled.forget_at_ms):
        return
    is_over = settled.forget_at_ms < builder.now_ms
    if not is_over.any():
        return
    builder.phase[(settled.verdict != 0) & is_over[settled.forget_slot]] = Phase.ABSENT
    place_after = (np.cumsum(~is_over) - 1).clip(0).astype(np.uint16)
    forget_slot = place_after[settled.forget_slot]
    builder.settled = SettledOffsets(
        _verdicts(builder), forget_slot, settled.forget_at_ms[~is_over]
    )


def _verdicts(builder: PageBuilder) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.where(builder.phase == Phase.PENDING, np.uint8(0), builder.phase)
