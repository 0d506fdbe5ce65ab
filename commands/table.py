"""Text for people: tables and sentences, as wide as their terminal."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Final

from checkback.protocol.printable import printable

GAP: Final = "  "


def terminal_columns() -> int | None:
    """Return how wide the terminal is; None where a program reads, which wants a line per row."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS"):
        return shutil.get_terminal_size().columns
    return None


def table_text(
    headings: Sequence[str], rows: Sequence[Sequence[object]], columns: int | None = None
) -> str:
    """Return the headings and the rows, columns aligned. What would command a terminal is escaped.

    Args:
        headings: of the columns.
        rows: their cells.
        columns: of the terminal. There the cells of a wide row are folded, but not those of the
            first column, which people copy, nor short ones. None: one line for each row.
    """
    cells = [[printable(str(cell).replace("\n", " ")) for cell in row] for row in rows]
    every = [list(headings), *cells] if any(headings) else cells
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]
    lines = [GAP.join(map(str.ljust, row, widths)).rstrip() for row in every]
    if columns is None or max(map(len, lines), default=0) <= columns:
        return "\n".join(lines)
    return _folded_table(headings, cells, widths, columns)


def _folded_table(
    headings: Sequence[str], cells: Sequence[Sequence[str]], widths: Sequence[int], columns: int
) -> str:
    from rich.console import Console  # late: rich loads slowly
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=any(headings), header_style="")
    kept, room = set(), columns * 3 // 4
    for number in sorted(range(len(widths)), key=lambda number: (number > 0, widths[number])):
        room -= widths[number] + len(GAP)
        if room >= 0:
            kept.add(number)
    for number, heading in enumerate(headings):
        table.add_column(Text(heading), overflow="fold", no_wrap=number in kept)
    for row in cells:
        table.add_row(*map(Text, row))
    console = Console(width=columns, color_system=None)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def list_text(
    headings: Sequence[str], rows: Sequence[Sequence[object]], nothing: str, *, is_filtered: bool
) -> str:
    """Return a table for the terminal; without rows, a sentence.

    Args:
        headings: of the columns.
        rows: their cells.
        nothing: the sentence where no filter was given.
        is_filtered: whether filters may have left rows out.
    """
    if rows:
        return table_text(headings, rows, terminal_columns())
    return "Nothing matches." if is_filtered else nothing


def wrapped(text: str, columns: int | None) -> str:
    """Return sentences with lines that fit the terminal; no word is broken, as ids may be copied.

    Args:
        text: its lines.
        columns: of the terminal; None: the text as it is.
    """
    if columns is None:
        return text
    wrapper = textwrap.TextWrapper(
        max(columns, 40), subsequent_indent=GAP, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(part for line in text.split("\n") for part in wrapper.wrap(line) or [""])


def terminal_text(text: str) -> str:
    """Return sentences with lines that fit the terminal that prints them."""
    return wrapped(text, terminal_columns())
