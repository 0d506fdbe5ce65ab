"""The sink's work for a batch: the outcomes of a state partition's pages, as columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkback.state import Action, Outcome
from checkback.state.formats.outcome import REST_UNKNOWN

NEEDS_HALF = np.zeros(len(Action) + 1, dtype=bool)
NEEDS_HALF[
    [
        Action.COMMIT,
        Action.CHECK,
        Action.DISCARD_CHECK_LIMIT,
        Action.DISCARD_EXPIRED,
        Action.REFUSE_HALF,
    ]
] = True
"""bool[action]: whether the action needs the half message. A rollback writes its mark only."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """Records to look up in one partition of one topic, and what each is for.

    Args:
        offset: int64[n], ascending, of the records.
        action: uint8[n], state.Action.
        detail: int32[n], check times or reason code.
        identity: int64[n, 2], both words of the half that was decided; the second is REST_UNKNOWN
            where the record is about none.
    """

    partition: int
    offset: NDArray[np.int64]
    action: NDArray[np.uint8]
    detail: NDArray[np.int32]
    identity: NDArray[np.int64]

    def only(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> Lookup:
        """Return the chosen ones of them, by bool[n] or by their positions."""
        return Lookup(
            self.partition,
            self.offset[chosen],
            self.action[chosen],
            self.detail[chosen],
            self.identity[chosen],
        )

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        return zip(self.offset.tolist(), self.action.tolist(), self.detail.tolist(), strict=True)


def half_lookups(outcomes: Sequence[Outcome]) -> list[Lookup]:
    """Return the halves that the outcomes need, per half partition, ascending by offset."""
    chosen = [(one, NEEDS_HALF[one.action], one.offset) for one in outcomes]
    return _lookups(chosen)


def op_lookups(outcomes: Sequence[Outcome]) -> list[Lookup]:
    """Return the refused records of the op topic, per partition, ascending by offset."""
    return _lookups([(one, one.action == Action.REFUSE_OP, one.source_offset) for one in outcomes])


def _lookups(
    every: Sequence[tuple[Outcome, NDArray[np.bool_], NDArray[np.int64]]],
) -> list[Lookup]:
    by_partition: dict[int, list[tuple[NDArray[np.int64], Outcome, NDArray[np.bool_]]]] = {}
    for outcome, chosen, offsets in every:
        if chosen.any():
            found = by_partition.setdefault(outcome.partition, [])
            found.append((offsets[chosen], outcome, chosen))
    return [_ascending(partition, found) for partition, found in sorted(by_partition.items())]


def _ascending(
    partition: int, found: list[tuple[NDArray[np.int64], Outcome, NDArray[np.bool_]]]
) -> Lookup:
    offset = np.concatenate([offsets for offsets, _, _ in found])
    action = np.concatenate([outcome.action[chosen] for _, outcome, chosen in found])
    detail = np.concatenate([outcome.detail[chosen] for _, outcome, chosen in found])
    identity = np.concatenate([_identities(outcome)[chosen] for _, outcome, chosen in found])
    order = np.argsort(offset, kind="stable")
    return Lookup(partition, offset, action, detail, identity).only(order)


def _identities(outcome: Outcome) -> NDArray[np.int64]:
    if outcome.identity is None or outcome.identity_rest is None:
        return np.full((len(outcome.action), 2), REST_UNKNOWN, np.int64)
    # A refused half may be one without group or id: any record there is copied.
    is_refused = outcome.action == Action.REFUSE_HALF
    rest = np.where(is_refused, REST_UNKNOWN, outcome.identity_rest)
    return np.column_stack((outcome.identity, rest))
