"""``checkback run``: run the pipeline until it is stopped."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

import click

from checkback.commands.shared.output import CommandOutput, losing_lines, output_option
from checkback.commands.shared.settings import every_setting_options
from checkback.deploy.jars import pipeline_jars
from checkback.deploy.java import find_java
from checkback.deploy.settings import LoadedSettings
from checkback.streaming.reports.progress import ProgressLine
from checkback.streaming.reports.progress_text import event_text, is_quiet, progress_text

Facts = dict[str, Any] | ProgressLine
REPLACE_LINE: Final = "\x1b[1A\r\x1b[2K"
"""One line up, then erase it: the terminal's codes."""


@click.command()
@output_option
@every_setting_options
def command(loaded: LoadedSettings, output: CommandOutput) -> None:
    """Run the transaction checker until SIGTERM or Ctrl-C ends it between two batches.

    Prints one line per progress interval: text on a terminal, where a line without news takes the
    place of the one before it, JSON lines elsewhere. The first event says that the query runs
    ("started"), the last one that it has ended ("stopped").
    """
    settings = loaded.settings
    find_java()
    jars = pipeline_jars(settings)
    # Imported late: Spark loads slowly, and a wrong setting should be reported before that.
    from checkback.streaming.job.run import Job
    from checkback.streaming.start.preflight import require_settings

    require_settings(settings)
    lines = CommandOutput(as_json=output.as_json or not sys.stdout.isatty())
    emit = TerminalLines().emit

    def emit_json(event: str, facts: Facts) -> None:
        fields = asdict(facts) if isinstance(facts, ProgressLine) else facts
        lines.line({"event": event, **fields}, "")

    if not lines.as_json:
        click.echo("starting Spark: this takes 10 to 30 s; Ctrl-C ends the pipeline")
    Job(settings, jars, losing_lines(emit_json if lines.as_json else emit)).run()


@dataclass(slots=True)
class TerminalLines:
    """Writes events to a terminal; a line without news takes the place of the last."""

    width: Callable[[], int] = lambda: shutil.get_terminal_size().columns
    _before: ProgressLine | None = None
    _replaceable_lines: int = 0

    def emit(self, event: str, facts: Facts) -> None:
        """Write an event."""
        width = self.width()
        if not isinstance(facts, ProgressLine):
            self._write(event_text(event, facts, width).split("\n"), quiet=False)
            return
        lines = progress_text(facts, width).split("\n")
        # The terminal breaks a line that is too wide; then the lines to replace can't be counted.
        fits = all(len(line) <= width for line in lines)
        self._write(lines, quiet=fits and is_quiet(facts, self._before))
        self._before = facts

    def _write(self, lines: list[str], *, quiet: bool) -> None:
        begin = REPLACE_LINE * self._replaceable_lines if quiet else ""
        sys.stdout.write(begin + "\n".join(lines) + "\n")
        sys.stdout.flush()
        self._replaceable_lines = len(lines) if quiet else 0
