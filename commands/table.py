"""Tables as text, for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Final

from rich.console import Console
from rich.table import Table

WIDTH_MAX: Final = 1_000
"""Wider than any row: people copy ids from these tables, so no cell may be cut off or wrapped."""


def table_text(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return the headings and the rows, columns aligned."""
    table = Table(*headings, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    console = Console(file=StringIO(), width=WIDTH_MAX, markup=False, highlight=False, emoji=False)
    with console.capture() as captured:
        console.print(table, no_wrap=True)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
