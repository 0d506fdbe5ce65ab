"""``checkback discarded``: what was given up, and how to let it begin anew."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

import click

from checkback.operations.discarded import (
    REASONS,
    DiscardedFilter,
    DiscardedHalf,
    discarded_halves,
)
from checkback.operations.resuming import HALVES_PER_TRANSACTION, Resumed, ResumeFacts, Resumer
from checkback.operations.scanning import TopicScanner
from checkback.protocol.configuration import Settings
from checkback.protocol.connection import confluent_settings
from checkback.protocol.errors import NotFoundError, UsageError
from checkback.streaming.commands.frame import Output, output_option
from checkback.streaming.commands.operating import (
    DurationType,
    now_ms,
    open_scanner,
    operator_option,
    yes_option,
)
from checkback.streaming.commands.settings import settings_options
from checkback.streaming.commands.table import table_text, time_text

HEADINGS = (
    "record", "transaction id", "group", "real topic", "reason", "checks", "half stored",
    "resumed to",
)  # fmt: skip


def filter_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose discarded records."""
    options = (
        click.option("--group", default="", help="Only those of this producer group."),
        click.option("--topic", default="", help="Only those for this real topic."),
        click.option("--older-than", type=DurationType(), help="Only halves of that age or more."),
        click.option("--reason", type=click.Choice(list(REASONS)), help="Only those given up so."),
    )
    for option in reversed(options):
        function = option(function)
    return function


@click.group(help="Look at what was given up, and let it begin anew.")
def command() -> None:
    """Group the verbs."""


@command.command("list")
@filter_options
@output_option
@settings_options
def list_(
    settings: Settings,
    output: Output,
    group: str,
    topic: str,
    older_than: int | None,
    reason: str | None,
) -> None:
    """List the discarded messages, oldest first, and what was resumed of them."""
    wanted = _filter("", group, topic, older_than, reason)
    with open_scanner(settings) as scanner:
        found = _chosen(scanner, settings, wanted)
    text = table_text(HEADINGS, map(_cells, found)) if found else "Nothing was discarded."
    output.show({"discarded": [one.as_data() for one in found]}, text)


@command.command()
@click.argument("name", metavar="ID")
@output_option
@settings_options
def show(settings: Settings, output: Output, name: str) -> None:
    """Show a discarded message whole: its properties, key and body.

    ID is partition:offset of the record on the discarded topic, or the transaction id.
    """
    with open_scanner(settings) as scanner:
        found = _chosen(scanner, settings, DiscardedFilter(name=name))
    if not found:
        raise _not_found(settings, name)
    output.show(
        {"discarded": [_whole(one) for one in found]},
        "\n\n".join(_whole_text(one) for one in found),
    )


@command.command()
@click.argument("name", metavar="[ID]", default="")
@filter_options
@click.option("--all", "everything", is_flag=True, help="All that are discarded and not resumed.")
@click.option("--why", required=True, help="Why; stays on the new half message.")
@operator_option
@yes_option
@output_option
@settings_options
def resume(
    settings: Settings,
    output: Output,
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
    """Let discarded messages begin anew, each once: a new half message, asked back from zero.

    ID is partition:offset of the record on the discarded topic, or the transaction id; or choose
    by the filters. The discarded record stays, and a note of where it was resumed to beside it.
    Without --yes it only says what it would do.
    """
    wanted = _filter(name, group, topic, older_than, reason)
    if wanted.is_open != everything:
        raise UsageError("Choose by an ID or filters, or take --all; not both.")
    if not operator or not why.strip():
        raise UsageError("Say who you are with --operator, and --why.")
    with open_scanner(settings) as scanner:
        if is_certain:
            facts = ResumeFacts(operator, why, now_ms())
            before, resumed = _resume(scanner, settings, wanted, facts)
        else:
            before, resumed = _chosen(scanner, settings, wanted), []
    if name and not before:
        raise _not_found(settings, name)
    _tell(output, before, resumed, is_certain=is_certain)


def _filter(
    name: str, group: str, topic: str, older_than: int | None, reason: str | None
) -> DiscardedFilter:
    until_ms = None if older_than is None else now_ms() - older_than
    return DiscardedFilter(name, group, topic, REASONS[reason] if reason else "", until_ms)


def _chosen(
    scanner: TopicScanner, settings: Settings, wanted: DiscardedFilter
) -> list[DiscardedHalf]:
    found = discarded_halves(scanner.scan(settings.topics.discarded))
    return [one for one in found if wanted.takes(one)]


def _resume(
    scanner: TopicScanner, settings: Settings, wanted: DiscardedFilter, facts: ResumeFacts
) -> tuple[list[DiscardedHalf], list[Resumed]]:
    connection = confluent_settings(settings.bootstrap_servers, settings.kafka)
    half_partitions = len(scanner.partitions(settings.topics.half))
    # Before the look: what another operator has under way is ended, or done, by this.
    resumer = Resumer(settings, connection, half_partitions)
    found = _chosen(scanner, settings, wanted)
    resumed: list[Resumed] = []
    left = [one for one in found if not one.resumed_to]
    for first in range(0, len(left), HALVES_PER_TRANSACTION):
        resumed += resumer.resume(left[first : first + HALVES_PER_TRANSACTION], facts)
    return found, resumed


def _tell(
    output: Output, before: Sequence[DiscardedHalf], resumed: Sequence[Resumed], *, is_certain: bool
) -> None:
    already = [one for one in before if one.resumed_to]
    planned = [one for one in before if not one.resumed_to]
    to = {one.half.record.at: str(one.to) for one in resumed}
    rows = [{**one.as_data(), "resumed_to": to.get(one.record.at, "")} for one in planned]
    lines = [_line(one, to.get(one.record.at)) for one in planned]
    lines += [f"{_name(one)}: already resumed to {one.resumed_to}" for one in already]
    if not is_certain and planned:
        lines.append("Give --yes to do it.")
    output.show(
        {
            "dry_run": not is_certain,
            "resumed": rows if is_certain else [],
            "would_resume": [] if is_certain else rows,
            "already_resumed": [one.as_data() for one in already],
        },
        "\n".join(lines) or "Nothing is discarded that this names.",
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
        remedy="See `checkback discarded list`.",
        name=name,
    )
