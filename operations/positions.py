"""Where a record stands: ``partition:offset``, as commands take and print it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_TEXT: Final = re.compile(r"(\d{1,10}):(\d{1,19})")


class Position(NamedTuple):
    """A record's place on its topic."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Position | None:
        """Return what the text says, None where it is something else: a transaction id."""
        found = _TEXT.fullmatch(text)
        return None if found is None else cls(int(found[1]), int(found[2]))
