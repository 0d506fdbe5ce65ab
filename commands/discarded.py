"""``checkback discarded``: list, show and resume discarded half messages."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

import click

from checkback.commands.core import CommandOutput, output_option
from checkback.commands.operator_options import (
    DurationType,
    now_ms,
    open_scanner,
    operator_option,
    yes_option,
)
from checkback.commands.settings import settings_options
from checkback.commands.table import table_text, terminal_columns
from checkback.operations.discarded import (
    REASONS,
    DiscardedFilter,
    DiscardedHalf,
)
from checkback.operations.resuming import (
    Resumed,
    ResumeFacts,
    chosen_halves,
    resume_chosen,
)
from checkback.operations.timestamps import time_text
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import NotFoundError, UsageError

HEADINGS = (
    "record", "transaction id", "group", "real topic", "reason", "checks", "half stored",
    "resumed to",
)  # fmt: skip


def filter_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose discarded records."""
    options = (
        click.option("--group", default="", help="Only messages of this producer group."),
        click.option("--topic", default="", help="Only messages for this real topic."),
        click.option("--older-than", type=DurationType(), help="Only halves of at least this age."),
        click.option(
            "--reason",
            type=click.Choice(list(REASONS)),
            help="Only messages discarded for this reason.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


@click.group(help="List, show and resume discarded messages.")
def command() -> None:
    """Group the verbs."""


@command.command("list")
@filter_options
@output_option
@settings_options
def list_(
    settings: Settings,
    output: CommandOutput,
    group: str,
    topic: str,
    older_than: int | None,
    reason: str | None,
) -> None:
    """List the discarded messages, oldest first, and whether each was resumed."""
    wanted = _filter("", group, topic, older_than, reason)
    with open_scanner(settings) as scanner:
        found = chosen_halves(scanner, settings.topics, wanted)
    is_filtered = group or topic or older_than is not None or reason
    none = "Nothing matches." if is_filtered else "Nothing was discarded."
    cells = map(_cells, found)
    text = table_text(HEADINGS, cells, terminal_columns()) if found else none
    output.show({"discarded": [one.as_data() for one in found]}, text)


@command.command()
@click.argument("name", metavar="ID")
@output_option
@settings_options
def show(settings: Settings, output: CommandOutput, name: str) -> None:
    """Show a whole discarded message: its properties, key and body.

    ID is partition:offset of the record on the discarded topic, or the transaction id.
    """
    with open_scanner(settings) as scanner:
        found = chosen_halves(scanner, settings.topics, DiscardedFilter(name=name))
    if not found:
        raise _not_found(settings, name)
    output.show(
        {"discarded": [_whole(one) for one in found]},
        "\n\n".join(_whole_text(one) for one in found),
    )


@command.command()
@click.argument("name", metavar="[ID]", default="")
@filter_options
@click.option(
    "--all", "everything", is_flag=True, help="All discarded messages that were not resumed yet."
)
@click.option("--why", required=True, help="The reason; the new half message keeps it.")
@operator_option
@yes_option
@output_option
@settings_options
def resume(
    settings: Settings,
    output: CommandOutput,
    name: str,
    group: str,
    topic: str,
    older_than: int | None,
    reason: str | None,
    everything: bool,
    why: str,
    operator: str,
    is_certain: bool,
) -> None:
    """Resume discarded messages, each once: as a new half whose check requests count from zero.

    ID is partition:offset of the record on the discarded topic, or the transaction id. The filters
    choose several messages. The discarded record stays; a note on the same topic names the new
    half. Without --yes the command only says what it would do.
    """
    wanted = _filter(name, group, topic, older_than, reason)
    if wanted.is_open != everything:
        raise UsageError("Give an ID, filters or --all; --all excludes the others.")
    if not operator or not why.strip():
        raise UsageError("Give your name with --operator and the reason with --why.")
    with open_scanner(settings) as scanner:
        if is_certain:
            facts = ResumeFacts(operator, why, now_ms())
            before, resumed = resume_chosen(scanner, settings, wanted, facts)
        else:
            before, resumed = chosen_halves(scanner, settings.topics, wanted), []
    if name and not before:
        raise _not_found(settings, name)
    _tell(output, before, resumed, is_certain=is_certain)


def _filter(
    name: str, group: str, topic: str, older_than: int | None, reason: str | None
) -> DiscardedFilter:
    until_ms = None if older_than is None else now_ms() - older_than
    return DiscardedFilter(name, group, topic, REASONS[reason] if reason else "", until_ms)


def _tell(
    output: CommandOutput,
    before: Sequence[DiscardedHalf],
    resumed: Sequence[Resumed],
    *,
    is_certain: bool,
) -> None:
    already = [one for one in before if one.resumed_to]
    planned = [one for one in before if not one.resumed_to]
    to = {one.half.record.at: str(one.to) for one in resumed}
    rows = [{**one.as_data(), "resumed_to": to.get(one.record.at, "")} for one in planned]
    lines = [_line(one, to.get(one.record.at)) for one in planned]
    lines += [f"{_name(one)}: already resumed to {one.resumed_to}" for one in already]
    if not is_certain and planned:
        lines.append("Run again with --yes to do it.")
    output.show(
        {
            "dry_run": not is_certain,
            "resumed": rows if is_certain else [],
            "would_resume": [] if is_certain else rows,
            "already_resumed": [one.as_data() for one in already],
        },
        "\n".join(lines) or "No discarded message matches.",
    )


def _line(half: DiscardedHalf, to: str | None) -> str:
    return f"{_name(half)}: {f'resumed to {to}' if to else 'would be resumed'}"


def _name(half: DiscardedHalf) -> str:
    return f"{half.record.at} ({half.transaction_id}, group {half.group})"


def _cells(half: DiscardedHalf) -> tuple[object, ...]:
    data = half.as_data()
    shown = ("transaction_id", "group", "real_topic", "reason", "check_times")
    return (
        half.record.at,
        *(data[name] for name in shown),
        time_text(half.record.time_ms),
        half.resumed_to or "-",
    )


def _whole(half: DiscardedHalf) -> dict[str, object]:
    record = half.record
    return {
        **half.as_data(),
        "key_base64": None if record.key is None else _base64(record.key),
        "body_base64": _base64(record.value or b""),
        "properties": {name: value.decode("utf-8", "replace") for name, value in record.headers},
    }


def _whole_text(half: DiscardedHalf) -> str:
    record = half.record
    rows = [(name, value.decode("utf-8", "backslashreplace")) for name, value in record.headers]
    rows.append(("(key)", (record.key or b"").decode("utf-8", "backslashreplace")))
    rows.append(("(body)", (record.value or b"").decode("utf-8", "backslashreplace")))
    if half.resumed_to:
        rows.append(("(resumed to)", half.resumed_to))
    return f"discarded {_name(half)}\n{table_text(('property', 'value'), rows)}"


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _not_found(settings: Settings, name: str) -> NotFoundError:
    return NotFoundError(
        f"{settings.topics.discarded} has no record {name}.",
        remedy="Run `checkback discarded list` to see the records.",
        name=name,
    )
