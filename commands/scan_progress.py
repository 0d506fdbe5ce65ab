"""What a command is doing, on standard error if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from checkback.operations.scanning import Advance


@contextmanager
def scan_progress() -> Iterator[Advance]:
    """Yield the callback for a scanner's progress; the bar disappears when the scan ends."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    columns = (
        TextColumn("reading {task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)

        def advance(topic: str, behind: int, total: int) -> None:
            progress.update(task, description=topic, completed=behind, total=total)

        yield advance
