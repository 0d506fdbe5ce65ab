"""Fair shares: what one producer group may take of a pass, so that the others find some left.

A group is known by the bits of its hash in an identity, so two groups with one hash have one share
together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from checkback.protocol.refusals import RefusedReason
from checkback.state.events import EventKind, Events
from checkback.state.identity import group_part
from checkback.state.ops import is_delivered

Ints = NDArray[np.int64]
UNLIMITED: Final = 2**31
GROUPS_AT_ONCE: Final = 4
"""How many groups may use up their share in one pass, or batch: names of groups cost nothing."""


def ranks_in_group(groups: Ints) -> Ints:
    """Return how many rows of the same group stand before each row."""
    order = np.argsort(groups, kind="stable")
    in_order = groups[order]
    is_first = np.append(True, in_order[1:] != in_order[:-1])[: len(groups)]
    first = np.flatnonzero(is_first)
    places = np.arange(len(groups))
    ranks = np.empty(len(groups), np.int64)
    ranks[order] = places - np.repeat(first, np.diff(np.append(first, len(groups))))
    return ranks


def within_shares(
    groups: Ints, taken: Mapping[int, int], of_group: int, of_all: int
) -> NDArray[np.intp]:
    """Return the positions of the rows that get something, ascending.

    Args:
        groups: of the rows, in the order in which they are served.
        taken: what groups have taken before.
        of_group: what one group may take.
        of_all: what all of them may still take.
    """
    if not len(groups):
        return np.zeros(0, np.intp)
    left = ranks_in_group(groups)
    for group in set(groups.tolist()) & taken.keys():
        left[groups == group] += taken[group]
    return np.flatnonzero(left < of_group)[: max(0, of_all)]


@dataclass(slots=True)
class OpPages:
    """How many pages without any half the ops of each group have named in one pass.

    Such a page keeps ops that wait, for whoever invents offsets. An op is hardly ever read before
    its half. If a commit or rollback is refused, a check asks for it again. A delivered op must not
    be refused: its half would be asked about as well, and the answer would have its final written a
    second time. So delivered ops always pass. The decoding refuses those that are forged for sure.

    Args:
        named: by group.
        admitted: pages in which an op of anybody was admitted.
    """

    named: dict[int, int] = field(default_factory=dict)
    admitted: int = 0

    def admit(self, events: Events, of_group: int) -> Events:
        """Return the events of a page without halves, with the ops beyond the bound refused.

        Args:
            events: of the page in this batch; where a half is among them, all ops pass.
            of_group: how many such pages a group may name; all together GROUPS_AT_ONCE times that.
        """
        is_op = events.kind == EventKind.OP
        is_op[is_op] = ~is_delivered(events.detail[is_op])
        has_half = np.isin(events.kind, (EventKind.HALF, EventKind.DIRECT_HALF)).any()
        if has_half or not is_op.any():
            return events
        groups = group_part(events.identity)
        loud = self._loud_among(set(groups[is_op].tolist()), of_group)
        if not loud:
            return events
        return events.with_refused_ops(
            is_op & np.isin(groups, list(loud)), RefusedReason.OP_PAGES_EXCEEDED
        )

    def _loud_among(self, groups: set[int], of_group: int) -> set[int]:
        """Return the groups over their bound; the page counts once, however many groups name it."""
        if self.admitted >= GROUPS_AT_ONCE * of_group:
            return groups
        calm = {group for group in groups if self.named.get(group, 0) < of_group}
        self.admitted += bool(calm)
        for group in calm:
            self.named[group] = self.named.get(group, 0) + 1
        return groups - calm
