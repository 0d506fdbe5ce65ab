"""Lists what the sink looks up by offset for a batch: decided halves, and refused ops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

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


Chosen = list[tuple[Outcome, NDArray[np.bool_]]]
"""Outcomes of one partition, with their chosen rows."""


def chosen_by_partition(
    outcomes: Iterable[Outcome], choose: Callable[[NDArray[np.uint8]], NDArray[np.bool_]]
) -> dict[int, Chosen]:
    """Return the outcomes with rows that are chosen by their actions, by partition in order."""
    found: dict[int, Chosen] = {}
    for outcome in sorted(outcomes, key=lambda one: one.partition):
        chosen = choose(outcome.action)
        if chosen.any():
            found.setdefault(int(outcome.partition), []).append((outcome, chosen))
    return found


def joined(found: Chosen, column: str) -> NDArray[Any]:
    """Return a column of the chosen rows of all outcomes."""
    return np.concatenate([getattr(outcome, column)[chosen] for outcome, chosen in found])


def half_lookups(outcomes: Sequence[Outcome]) -> list[Lookup]:
    """Return the halves that the outcomes need, per half partition, ascending by offset."""
    return _lookups(chosen_by_partition(outcomes, lambda action: NEEDS_HALF[action]), "offset")


def op_lookups(outcomes: Sequence[Outcome]) -> list[Lookup]:
    """Return the refused records of the op topic, per partition, ascending by offset."""
    refused = chosen_by_partition(outcomes, lambda action: action == Action.REFUSE_OP)
    return _lookups(refused, "source_offset")


def _lookups(by_partition: dict[int, Chosen], column: str) -> list[Lookup]:
    lookups = []
    for partition, found in by_partition.items():
        offset, action, detail = (joined(found, name) for name in (column, "action", "detail"))
        identity = np.concatenate([_identities(outcome)[chosen] for outcome, chosen in found])
        order = np.argsort(offset, kind="stable")
        lookups.append(Lookup(partition, offset, action, detail, identity).only(order))
    return lookups


def _identities(outcome: Outcome) -> NDArray[np.int64]:
    if outcome.identity is None or outcome.identity_rest is None:
        return np.full((len(outcome.action), 2), REST_UNKNOWN, np.int64)
    # A refused half may be one without group or id: any record there is copied.
    is_refused = outcome.action == Action.REFUSE_HALF
    rest = np.where(is_refused, REST_UNKNOWN, outcome.identity_rest)
    return np.column_stack((outcome.identity, rest))
