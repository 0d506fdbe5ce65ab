"""What the operators' commands share: durations as options, who they are, a look at the topics."""

from __future__ import annotations

import getpass
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from checkback.operations.durations import duration_ms
from checkback.operations.scanning import TopicScanner
from checkback.operations.transactions import TransactionFinder
from checkback.protocol.configuration import Settings
from checkback.protocol.connection import confluent_settings
from checkback.protocol.errors import UsageError
from checkback.sinks.lookup import RecordReader
from checkback.streaming.commands.scan_progress import scan_progress

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class DurationType(click.ParamType[int]):
    """A duration like ``10m``; a command gets it in milliseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the milliseconds."""
        if isinstance(value, int):
            return value
        try:
            return duration_ms(str(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)


def listing_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add what chooses among pending halves: age in milliseconds, group, and how many."""
    options: list[Decorator] = [
        click.option(
            "--older-than", type=DurationType(), help="Only halves of that age or more: 10m, 2h."
        ),
        click.option("--group", help="Only those of this producer group."),
        click.option(
            "--limit",
            type=click.IntRange(min=1),
            default=100,
            show_default=True,
            help="No more than that.",
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def operator_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--operator``, the name of the user of this process if it is not given."""
    return click.option(
        "--operator",
        default=_user_name,
        show_default="the user of this process",
        help="Who does it; stays in the records.",
    )(function)


def yes_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--yes``."""
    return click.option(
        "--yes", "is_certain", is_flag=True, help="Do it; without it, say what would be done."
    )(function)


def now_ms() -> int:
    """Return the time, milliseconds since 1970."""
    return int(time.time() * 1_000)


@contextmanager
def open_scanner(settings: Settings) -> Iterator[TopicScanner]:
    """Give a scanner that shows how far it has come."""
    connection = confluent_settings(settings.bootstrap_servers, settings.kafka)
    with scan_progress() as advance, TopicScanner(connection, advance) as scanner:
        yield scanner


@contextmanager
def open_finder(settings: Settings) -> Iterator[TransactionFinder]:
    """Give a finder of transactions."""
    connection = confluent_settings(settings.bootstrap_servers, settings.kafka)
    halves = RecordReader({**connection, "log_level": 2}, settings.topics.half)
    try:
        with open_scanner(settings) as scanner:
            yield TransactionFinder(scanner, halves, settings.topics)
    finally:
        halves.close()


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        return ""
