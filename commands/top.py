"""``checkback top``: what the pipeline is doing, in the terminal."""

from __future__ import annotations

import os
import select
import shutil
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from checkback.commands.core import CommandOutput, output_option
from checkback.commands.metrics_option import metrics_url_option
from checkback.commands.settings import settings_options
from checkback.operations.timestamps import time_text
from checkback.protocol.configuration import Settings
from checkback.protocol.durations import duration_text
from checkback.protocol.printable import printable

if TYPE_CHECKING:
    from checkback.console.history import History
    from checkback.console.kafka_facts import GroupRow
    from checkback.console.watching import SourceWatch

BARS: Final = "▁▂▃▄▅▆▇█"
WIDTH: Final = 40
WIDE: Final = 120
"""Where there is no terminal."""
PEEK_S: Final = 0.25
"""Time between two looks for answers."""
QUIT_KEYS: Final = frozenset("qQ\x04")


@click.command()
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=0.2),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two looks.",
)
@click.option("--once", is_flag=True, help="Print the second look, whose rates are known, and end.")
@metrics_url_option
@output_option
@settings_options
def command(
    settings: Settings, output: CommandOutput, interval_s: float, metrics_url: str, *, once: bool
) -> None:
    """Show figures, rates and producer groups as they change; q or Ctrl-C ends it.

    JSON, or no terminal: one snapshot per line.
    """
    from checkback.console.opening import open_sources
    from checkback.console.watching import SourceWatch

    watch = SourceWatch(open_sources(settings, metrics_url))
    if once:
        watch.begin()
        watch.take_figures(None)
        time.sleep(interval_s)
        watch.begin()
        watch.take_groups(None)
        _line(watch, output)
    elif output.as_json or not sys.stdout.isatty():
        _print_lines(watch, output, interval_s)
    else:
        with (
            keys() as key_within,
            Live(console=Console(), screen=True, auto_refresh=False) as live,
        ):
            _show(watch, key_within, live, interval_s)


def _print_lines(watch: SourceWatch, output: CommandOutput, interval_s: float) -> None:
    from checkback.console.watching import LATE_S

    while True:
        watch.begin()
        watch.take_groups(min(LATE_S, interval_s))
        _line(watch, output)
        time.sleep(interval_s)


def _show(
    watch: SourceWatch, key_within: Callable[[float], str], live: Live, interval_s: float
) -> None:
    """Show each look as soon as its answers come, and meanwhile what is waited for."""
    key, next_s = "", 0.0
    late: tuple[str, ...] = ()
    while key not in QUIT_KEYS:
        if time.monotonic() >= next_s:
            watch.begin()
            next_s = time.monotonic() + interval_s
        is_new = watch.take_figures(0.0) | watch.take_groups(0.0)
        late, before = watch.late, late
        if is_new or late != before:
            live.update(view(watch.history, watch.groups, late), refresh=True)
        key = key_within(min(PEEK_S, interval_s))


@contextmanager
def keys() -> Iterator[Callable[[float], str]]:
    """Yield what waits that many seconds, or until a key is pressed, which it returns.

    It returns "" where none was; where standard input is no terminal, it only waits.
    """
    if not sys.stdin.isatty():
        yield _no_key_within
        return

    def key_within(wait_s: float) -> str:
        is_pressed = bool(select.select([terminal], [], [], wait_s)[0])
        return os.read(terminal, 1).decode("latin-1") if is_pressed else ""

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)  # keys come without Enter; Ctrl-C still is a signal
    try:
        yield key_within
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _no_key_within(wait_s: float) -> str:
    time.sleep(wait_s)
    return ""


def _line(watch: SourceWatch, output: CommandOutput) -> None:
    """Print the newest figures, and the groups as far as they are known."""
    watch.take_figures(None)
    snapshot = watch.history.latest
    assert snapshot is not None  # noqa: S101 - there is one, or asking raised why not
    data = {**snapshot.as_data(), "groups": _groups_data(watch.groups)}
    output.line(data, text_of(view(watch.history, watch.groups, watch.late)))


def view(
    history: History, groups: Sequence[GroupRow] | str, late: Sequence[str] = ()
) -> RenderableType:
    """Return what the terminal shows.

    Args:
        history: the snapshots.
        groups: the producer groups, or why they are not known.
        late: what is still waited for.
    """
    waits = [Text(one, style="italic") for one in late]
    return Group(*_figures(history), "", *waits, _groups_table(groups))


def _figures(history: History) -> Iterator[RenderableType]:
    snapshot = history.latest
    if snapshot is None:
        yield Text("The first figures are being read.")
        return
    yield Text(f"{snapshot.application_id}  {time_text(snapshot.time_ms)}", style="bold")
    for gap in snapshot.missing:
        yield Text(f"no {gap.what}: {gap.says} {gap.remedy}")
    figures = Table(box=None, pad_edge=False, show_header=False)
    for one in history.plots():
        figures.add_row(
            one.title, Text(f"{one.latest}{one.latest_unit}", justify="right"), bars(one.lines)
        )
    totals = "  ".join(
        f"{event.replace('_', ' ')} {count:,.0f}" for event, count in snapshot.totals.items()
    )
    yield from ("", figures, Text(totals))
    if snapshot.counted_how:
        yield Text(snapshot.counted_how)


def bars(lines: Sequence[str]) -> str:
    """Return a plot's newest points as bars, from the coordinates of its lines."""
    from checkback.console.plots import HEIGHT

    heights = [float(point.split(",")[1]) for line in lines for point in line.split()]
    steps = (int((1 - y / HEIGHT) * len(BARS)) for y in heights[-WIDTH:])
    return "".join(BARS[min(len(BARS) - 1, max(0, step))] for step in steps)


def text_of(shown: RenderableType) -> str:
    """Return what the terminal would show as text."""
    console = Console(width=shutil.get_terminal_size((WIDE, 1)).columns, color_system=None)
    with console.capture() as captured:
        console.print(shown)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _groups_table(groups: Sequence[GroupRow] | str) -> RenderableType:
    if isinstance(groups, str):
        return Text(groups)
    table = Table(box=None, pad_edge=False)
    table.add_column("group", overflow="fold")
    for name in ("pending", "oldest", "members"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("finding", overflow="fold")
    for row in groups:
        facts = row.facts
        age = duration_text(facts.oldest_age_ms) if facts.pending else "-"
        members = "?" if facts.members is None else str(facts.members)
        group = Text(printable(facts.name))
        pending = f"{facts.pending:,}" if row.is_counted else "?"
        table.add_row(group, pending, age, members, _finding(row))
    return table


def _finding(row: GroupRow) -> Text:
    if not row.is_counted:
        return Text("no ledger says what is pending")
    if not row.facts.pending:
        return Text("idle")
    if not row.finding.remedy:
        return Text(str(row.finding.result))
    return Text(f"{row.finding.result}: {row.says}")


def _groups_data(groups: Sequence[GroupRow] | str) -> list[dict[str, Any]] | None:
    if isinstance(groups, str):
        return None
    return [
        {
            "group": row.facts.name,
            "pending": row.facts.pending if row.is_counted else None,
            "oldest_age_ms": row.facts.oldest_age_ms if row.is_counted else None,
            "members": row.facts.members,
            "result": str(row.finding.result) if row.is_counted else None,
        }
        for row in groups
    ]
