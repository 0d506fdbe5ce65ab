"""The position of a record: ``partition:offset``, as commands read and print it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_TEXT: Final = re.compile(r"(\d{1,10}):(\d{1,19})")


class Position(NamedTuple):
    """A record's position on its topic."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Position | None:
        """Return the position, None if the text is something else, such as a transaction id."""
        found = _TEXT.fullmatch(text)
        return None if found is None else cls(int(found[1]), int(found[2]))
