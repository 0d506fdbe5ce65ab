"""Tables as text, for people."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Final

from rich.console import Console
from rich.table import Table

WIDTH_MAX: Final = 1_000
"""Wider than any row: ids are copied from these tables, so nothing may be cut off or folded."""


def table_text(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return the rows below their headings, columns aligned."""
    table = Table(*headings, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    console = Console(file=StringIO(), width=WIDTH_MAX, markup=False, highlight=False, emoji=False)
    with console.capture() as captured:
        console.print(table, no_wrap=True)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def time_text(time_ms: int) -> str:
    """Return milliseconds since 1970 as a date and time in UTC."""
    whole_s = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time_ms // 1_000))
    return f"{whole_s}.{time_ms % 1_000:03}Z"
