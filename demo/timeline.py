"""The live timeline: a line per event, and on a terminal a last line with the present state."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Self

from rich.console import Console
from rich.status import Status
from rich.text import Text

SOURCE_STYLES: Final = {
    "order service": "cyan",
    "retired service": "magenta",
    "pipeline": "green",
    "demo": "bold",
}
SOURCE_WIDTH: Final = max(map(len, SOURCE_STYLES))
COLUMNS_MAX: Final = 80
"""Longer lines are folded, also in a file: they end up in reports and mails."""
TEXT_AT: Final = len("1234.5 s  ") + SOURCE_WIDTH + 2


@dataclass(slots=True)
class Timeline:
    """Prints and remembers events with the time since the beginning.

    Args:
        console: the output; it has the last line only if it is a terminal.
        clock_s: a clock that never goes back, in seconds.
    """

    console: Console
    clock_s: Callable[[], float] = time.monotonic
    entries: list[dict[str, Any]] = field(default_factory=list)
    _began_s: float = field(init=False)
    _status: Status | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._began_s = self.clock_s()

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._status = self.console.status("")
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the beginning."""
        return self.clock_s() - self._began_s

    def say(self, source: str, text: str) -> None:
        """Add a line.

        Args:
            source: the actor, one of SOURCE_STYLES.
            text: what happened.
        """
        at_s = round(self.elapsed_s, 1)
        self.entries.append({"at_s": at_s, "source": source, "text": text})
        first, *further = folded(self.console, text, TEXT_AT)
        line = Text.assemble(
            (f"{at_s:6.1f} s  ", "dim"),
            (f"{source:<{SOURCE_WIDTH}}  ", SOURCE_STYLES.get(source, "")),
            "\n".join([first, *(" " * TEXT_AT + one for one in further)]),
        )
        self.console.print(line, soft_wrap=True)

    def show_command(self, command: str) -> None:
        """Show a command for people to copy, by itself and never folded."""
        self.console.print(f"  {command}", soft_wrap=True, markup=False)

    def show_state(self, text: str) -> None:
        """Show the present state in the last line of a terminal; elsewhere do nothing."""
        if self._status is not None:
            self._status.update(f"[dim]{text}[/dim]")


def folded(console: Console, text: str, indent: int = 0) -> list[str]:
    """Return a text as lines that fit the terminal and COLUMNS_MAX; no word is broken.

    Args:
        console: the output.
        text: what is said.
        indent: columns in front of each line.
    """
    columns = min(COLUMNS_MAX, console.width) if console.is_terminal else COLUMNS_MAX
    width = max(20, columns - indent)
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]
