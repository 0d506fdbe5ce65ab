"""Fair shares: bounds the checks of one producer group in a pass.

A group is known by the bits of its hash in an identity, so two groups with one hash have one share
together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

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
