"""Options and readers that the operators' commands share."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from functools import wraps
from typing import Any, Final

import click

from checkback.commands.shared.output import scan_progress
from checkback.operations.parked.filter import RecordFilter
from checkback.operations.topics.scanner import TopicScanner
from checkback.operations.transactions import finder as transactions
from checkback.operations.transactions.finder import TransactionFinder
from checkback.operations.transactions.timestamps import now_ms
from checkback.protocol.configuration import Settings
from checkback.protocol.durations import duration_ms
from checkback.protocol.errors import UsageError
from checkback.protocol.records import OperatorFacts
from checkback.protocol.refusals import RefusedReason

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class DurationType(click.ParamType[int]):
    """A duration like ``10m``; the command receives milliseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the duration in milliseconds."""
        if isinstance(value, int):
            return value
        try:
            return duration_ms(str(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)


AGE: Final = DurationType()


class ReasonType(click.ParamType[str]):
    """The reason of a refusal, in letters of either case.

    click.Choice would answer a mistyped reason with all of them, and in lower case.
    """

    name = "reason"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return its name as records have it."""
        name, known = str(value).upper(), [reason.name for reason in RefusedReason]
        if name not in known:
            close = get_close_matches(name, known, 1, 0.7)
            meant = f" Did you mean {close[0]}?" if close else ""
            says = f"{value!r} is no reason.{meant} `checkback docs protocol` lists them."
            self.fail(says, param, ctx)
        return name


def operator_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--operator``; its default is the user of this process."""
    return click.option(
        "--operator",
        default=_user_name,
        show_default="the user of this process",
        help="Your name; the records keep it.",
    )(function)


def yes_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--yes``."""
    return click.option(
        "--yes",
        "is_certain",
        is_flag=True,
        help="Do it; without this, only say what would be done.",
    )(function)


def filter_options(reason: click.ParamType[str], reasons: Mapping[str, str]) -> Decorator:
    """Return a decorator that adds options; they reach the command as one filter, ``wanted``.

    Args:
        reason: reads a reason.
        reasons: by the reason as users write it, the reason as the records do.
    """
    options = (
        click.option("--group", default="", help="Only records that name this producer group."),
        click.option("--topic", default="", help="Only records that name this real topic."),
        click.option("--older-than", type=AGE, help="Only records of at least this age."),
        click.option("--newer-than", type=AGE, help="Only records of at most this age."),
        click.option("--reason", type=reason, help="Only records with this reason."),
    )

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def chosen(*args: Any, group: str, topic: str, reason: str | None, **rest: Any) -> Any:
            until_ms, from_ms = (ago_ms(rest.pop(age)) for age in ("older_than", "newer_than"))
            code, name = reasons[reason] if reason else "", rest.get("name", "")
            wanted = RecordFilter(name, group, topic, code, until_ms, from_ms)
            return function(*args, wanted=wanted, **rest)

        result: Callable[..., Any] = chosen
        for option in reversed(options):
            result = option(result)
        return result

    return add


def ago_ms(age_ms: int | None) -> int | None:
    """Return when something of that age happened, None for no age."""
    return None if age_ms is None else now_ms() - age_ms


def operator_facts(
    wanted: RecordFilter, operator: str, why: str, *, everything: bool
) -> OperatorFacts:
    """Return who acts on the records that a filter chooses, why, and when: now.

    Raises:
        UsageError: nothing chooses the records, or name or reason is missing.
    """
    if wanted.is_open != everything:
        raise UsageError("Give an ID, filters or --all; --all excludes the others.")
    if not operator or not why.strip():
        raise UsageError("Give your name with --operator and the reason with --why.")
    return OperatorFacts(operator, why, now_ms())


@contextmanager
def open_scanner(settings: Settings) -> Iterator[TopicScanner]:
    """Yield a scanner that shows its progress."""
    with scan_progress() as advance, TopicScanner(settings.connection(), advance) as scanner:
        yield scanner


@contextmanager
def open_finder(settings: Settings) -> Iterator[TransactionFinder]:
    """Yield a finder of transactions that shows its progress."""
    with scan_progress() as advance, transactions.open_finder(settings, advance) as finder:
        yield finder


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        return ""
