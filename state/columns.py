"""Tables as frozen dataclasses of arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Columns:
    """Base of dataclasses whose fields are arrays of equal length, one row at each position."""

    def __len__(self) -> int:
        first: NDArray[Any] = getattr(self, fields(self)[0].name)
        return len(first)

    @classmethod
    def none(cls) -> Self:
        """Return no rows."""
        return cls(*(np.zeros(0, np.int64) for _ in fields(cls)))

    def take(self, rows: NDArray[Any]) -> Self:
        """Return the rows at these positions, or those where this mask is true."""
        return type(self)(*(getattr(self, one.name)[rows] for one in fields(self)))

    @classmethod
    def joined(cls, *parts: Self) -> Self:
        """Return the rows of all parts (at least one), in their order."""
        names = [one.name for one in fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
