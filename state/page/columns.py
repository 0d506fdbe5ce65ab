"""Tables as frozen dataclasses of arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

_NAMES: Final[dict[type, tuple[str, ...]]] = {}


def _names(table: type[Columns]) -> tuple[str, ...]:
    """Return the columns' names; asking dataclasses each time was a third of a decision's time."""
    names = _NAMES.get(table)
    if names is None:
        names = _NAMES[table] = tuple(one.name for one in fields(table))
    return names


@dataclass(frozen=True, slots=True)
class Columns:
    """Base of dataclasses of arrays of equal length, one row at each position."""

    def __len__(self) -> int:
        first: NDArray[Any] = getattr(self, _names(type(self))[0])
        return len(first)

    @classmethod
    def empty(cls) -> Self:
        """Return no rows."""
        return cls(*(np.zeros(0, np.int64) for _ in _names(cls)))

    def take(self, rows: NDArray[Any]) -> Self:
        """Return the rows at these positions, or those where this mask is true."""
        return type(self)(*[getattr(self, name)[rows] for name in _names(type(self))])

    @classmethod
    def joined(cls, *parts: Self) -> Self:
        """Return the rows of all parts (at least one), in their order."""
        names = _names(cls)
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
