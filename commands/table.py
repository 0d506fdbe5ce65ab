"""Tables as text, for people."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Final

from rich.cells import cell_len

from checkback.protocol.printable import printable

GAP: Final = 2
"""Columns between two cells, and before the further lines of a row."""


def terminal_columns() -> int | None:
    """Return how wide the terminal is; None where a program reads, which wants a line per row."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS"):
        return shutil.get_terminal_size().columns
    return None


def table_text(
    headings: Sequence[str], rows: Iterable[Sequence[object]], columns: int | None = None
) -> str:
    """Return the headings and the rows, columns aligned.

    People copy ids out of it, so no cell is cut off. What would command the terminal is escaped.

    Args:
        headings: of the columns.
        rows: their cells.
        columns: of the terminal. A row that is wider takes further lines, which are indented;
            no cell is ever broken. None: one line for each row, however wide.
    """
    cells = [[_one_line(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(headings, *cells, strict=True)]
    lines = [_aligned([row[part] for row in [list(headings), *cells]], widths[part])
             for part in _parts(widths, columns or sys.maxsize)]  # fmt: skip
    first, *further = lines
    indented = [[f"{' ' * GAP}{line}" for line in one] for one in further]
    return "\n".join(line for row in zip(first, *indented, strict=True) for line in row)


def list_text(
    headings: Sequence[str], rows: Sequence[Sequence[object]], nothing: str, *, is_filtered: bool
) -> str:
    """Return a table for the terminal; without rows, a sentence.

    Args:
        headings: of the columns.
        rows: their cells.
        nothing: the sentence where nobody filtered.
        is_filtered: whether filters may have left rows out.
    """
    if rows:
        return table_text(headings, rows, terminal_columns())
    return "Nothing matches." if is_filtered else nothing


def _one_line(cell: object) -> str:
    return printable(str(cell).replace("\n", " "))


def _parts(widths: Sequence[int], columns: int) -> list[slice]:
    """Return which columns of the table share a line."""
    parts, first, taken = [], 0, 0
    for number, width in enumerate(widths):
        if number > first and taken + width > columns:
            parts.append(slice(first, number))
            first, taken = number, GAP
        taken += width + GAP
    return [*parts, slice(first, len(widths))]


def _aligned(rows: Iterable[Sequence[str]], widths: Sequence[int]) -> list[str]:
    *padded, _ = widths
    return [
        "".join(
            cell + " " * (width + GAP - cell_len(cell))
            for cell, width in zip(row, [*padded, -GAP], strict=True)
        ).rstrip()
        for row in rows
    ]


def folded(text: str, columns: int | None, indent: int = 0) -> list[str]:
    """Return a text as lines that fit the terminal; no word is broken, as ids may be copied.

    Args:
        text: what is said.
        columns: of the terminal; None: one line, however wide.
        indent: columns in front of each line; further lines have GAP more.
    """
    first = " " * indent
    if columns is None:
        return [first + text]
    return textwrap.wrap(
        text, max(columns, 40), initial_indent=first, subsequent_indent=first + " " * GAP,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def terminal_text(text: str) -> str:
    """Return sentences for people, folded where they are too wide for the terminal."""
    return "\n".join(folded_lines(text.split("\n"), terminal_columns()))


def folded_lines(lines: Iterable[str], columns: int | None) -> list[str]:
    """Return lines so that they fit the terminal, each folded where it is too wide.

    Args:
        lines: texts and rows of a table; empty ones stay.
        columns: of the terminal; None: as they are.
    """
    return [part for line in lines for part in folded(line, columns) or [""]]
