"""The position of a record: ``partition:offset``, as commands read and print it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from checkback.protocol.properties import OFFSET_MAX

_TEXT: Final = re.compile(r"(\d{1,10}):(\d{1,19})")
PARTITION_MAX: Final = 2**31 - 1


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
        at = None if found is None else cls(int(found[1]), int(found[2]))
        can_be = at is not None and at.partition <= PARTITION_MAX and at.offset <= OFFSET_MAX
        return at if can_be else None
