"""``checkback refused``: list and show refused records, and send refused finals again."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

import click

from checkback.commands.core import EXIT_FOUND, CommandOutput, output_option
from checkback.commands.operator_options import (
    DurationType,
    now_ms,
    open_scanner,
    operator_option,
    yes_option,
)
from checkback.commands.settings import settings_options
from checkback.commands.table import table_text, terminal_columns
from checkback.operations.refused import RefusedFilter, RefusedRecord, refused_records
from checkback.operations.resending import (
    FINALS_PER_TRANSACTION,
    FinalPlanner,
    Resender,
    ResendFacts,
    Resent,
)
from checkback.operations.scanning import TopicScanner
from checkback.operations.timestamps import time_text
from checkback.protocol.configuration import Settings
from checkback.protocol.connection import confluent_settings
from checkback.protocol.errors import NotFoundError, UsageError
from checkback.protocol.refusals import RefusedReason
from checkback.sinks.kafka.lookup import RecordReader

HEADINGS = (
    "record", "refused", "reason", "transaction id", "group", "real topic", "from", "resent to",
)  # fmt: skip


def filter_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose refused records; they arrive as one filter, ``wanted``."""

    def chosen(
        *args: Any,
        group: str,
        topic: str,
        older_than: int | None,
        newer_than: int | None,
        reason: str | None,
        **rest: Any,
    ) -> Any:
        wanted = RefusedFilter(
            rest.get("name", ""),
            group,
            topic,
            None if reason is None else RefusedReason[reason],
            None if older_than is None else now_ms() - older_than,
            None if newer_than is None else now_ms() - newer_than,
        )
        return function(*args, wanted=wanted, **rest)

    chosen.__name__, chosen.__doc__ = function.__name__, function.__doc__
    chosen.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
    age = DurationType()
    names = [reason.name for reason in RefusedReason]
    options = (
        click.option("--group", default="", help="Only records that name this producer group."),
        click.option("--topic", default="", help="Only records that name this real topic."),
        click.option("--older-than", type=age, help="Only what was refused so long ago, or more."),
        click.option("--newer-than", type=age, help="Only what was refused so long ago, or less."),
        click.option(
            "--reason",
            type=click.Choice(names, case_sensitive=False),
            metavar="REASON",
            help="Only records refused for this reason, such as REAL_TOPIC_MISSING.",
        ),
    )
    result: Callable[..., Any] = chosen
    for option in reversed(options):
        result = option(result)
    return result


@click.group(help="List and show refused records, and send refused finals again.")
def command() -> None:
    """Group the verbs."""


@command.command("list")
@filter_options
@output_option
@settings_options
def list_(settings: Settings, output: CommandOutput, wanted: RefusedFilter) -> None:
    """List the refused records, the oldest refusal first, and whether each was sent again."""
    with open_scanner(settings) as scanner:
        found = _chosen(scanner, settings, wanted)
    cells = map(_cells, found)
    none = "Nothing was refused." if wanted.is_open else "Nothing matches."
    text = table_text(HEADINGS, cells, terminal_columns()) if found else none
    output.show({"refused": [_row(one, settings) for one in found]}, text)


@command.command()
@click.argument("name", metavar="ID")
@output_option
@settings_options
def show(settings: Settings, output: CommandOutput, name: str) -> None:
    """Show a whole refused record: its headers, key and body.

    ID is partition:offset of the record on the refused topic, or the transaction id.
    """
    with open_scanner(settings) as scanner:
        found = _chosen(scanner, settings, RefusedFilter(name=name))
    if not found:
        raise _not_found(settings, name)
    output.show(
        {"refused": [_whole(one, settings) for one in found]},
        "\n\n".join(_whole_text(one) for one in found),
    )


@command.command()
@click.argument("name", metavar="[ID]", default="")
@filter_options
@click.option("--all", "everything", is_flag=True, help="All refused finals not sent again yet.")
@click.option("--force", is_flag=True, help="Also those that were sent again already.")
@click.option("--why", required=True, help="The reason; the final message keeps it.")
@operator_option
@yes_option
@output_option
@settings_options
def resend(
    settings: Settings,
    output: CommandOutput,
    wanted: RefusedFilter,
    name: str,
    everything: bool,
    force: bool,
    why: str,
    operator: str,
    is_certain: bool,
) -> int:
    """Send the final messages of committed halves that were refused, each once.

    For a real topic that was missing, forbidden or too small, and is mended now. ID is
    partition:offset of the record on the refused topic, or the transaction id; the filters choose
    several records. The refused record stays; a note on the same topic names the final. Without
    --yes the command only says what it would do.
    """
    if wanted.is_open != everything:
        raise UsageError("Give an ID, filters or --all; --all excludes the others.")
    if not operator or not why.strip():
        raise UsageError("Give your name with --operator and the reason with --why.")
    facts = ResendFacts(operator, why, now_ms())
    with open_scanner(settings) as scanner:
        # Before reading the records: this ends what another operator has begun to send.
        sender = Resender(settings, _connection(settings)) if is_certain else None
        found = _chosen(scanner, settings, wanted)
        if name and not found:
            raise _not_found(settings, name)
        already = [one for one in found if one.resent_to and not force]
        left = [one for one in found if force or not one.resent_to]
        done = _resend(scanner, settings, left, facts, sender)
    _tell(output, settings, done, already, is_certain=is_certain)
    return EXIT_FOUND if any(one.obstacle for one in done) else 0


def _resend(
    scanner: TopicScanner,
    settings: Settings,
    records: Sequence[RefusedRecord],
    facts: ResendFacts,
    sender: Resender | None,
) -> list[Resent]:
    """Send what can be sent; without a sender, say what would be."""
    connection, half_topic = _connection(settings), settings.topics.half
    ends = {one.partition: one.offset for one in scanner.ends([half_topic])}
    halves = RecordReader({**connection, "log_level": 2}, half_topic)
    done: list[Resent] = []
    try:
        planner = FinalPlanner(settings, connection, halves, ends, facts)
        for first in range(0, len(records), FINALS_PER_TRANSACTION):
            planned = [planner.plan(one) for one in records[first : first + FINALS_PER_TRANSACTION]]
            if sender is None:
                done += [Resent(one.refused, obstacle=one.obstacle) for one in planned]
            else:
                done += sender.resend(planned, facts)
    finally:
        halves.close()
    return done


def _chosen(
    scanner: TopicScanner, settings: Settings, wanted: RefusedFilter
) -> list[RefusedRecord]:
    found = refused_records(scanner.scan(settings.topics.refused))
    return [one for one in found if wanted.takes(one)]


def _connection(settings: Settings) -> dict[str, Any]:
    return confluent_settings(settings.bootstrap_servers, settings.kafka)


def _tell(
    output: CommandOutput,
    settings: Settings,
    done: Sequence[Resent],
    already: Sequence[RefusedRecord],
    *,
    is_certain: bool,
) -> None:
    sent = [one for one in done if not one.obstacle]
    rows = [{**_row(one.refused, settings), "resent_to": one.to} for one in sent]
    stuck = [one for one in done if one.obstacle]
    verb = "resent to {}" if is_certain else "would be resent"
    lines = [f"{_name(one.refused)}: {verb.format(one.to)}" for one in sent]
    lines += [f"{_name(one)}: already resent to {one.resent_to}" for one in already]
    lines += [f"{_name(one.refused)}: can't be resent: {one.obstacle}" for one in stuck]
    if sent and not is_certain:
        lines.append("Run again with --yes to do it.")
    output.show(
        {
            "dry_run": not is_certain,
            "resent": rows if is_certain else [],
            "would_resend": [] if is_certain else rows,
            "already_resent": [_row(one, settings) for one in already],
            "cannot_resend": [
                {**_row(one.refused, settings), "obstacle": one.obstacle} for one in stuck
            ],
        },
        "\n".join(lines) or "No refused record matches.",
    )


def _row(record: RefusedRecord, settings: Settings) -> dict[str, object]:
    return {**record.as_data(), "obstacle": record.obstacle(settings.topics.half)}


def _name(record: RefusedRecord) -> str:
    return f"{record.record.at} ({record.transaction_id}, group {record.group})"


def _cells(record: RefusedRecord) -> tuple[object, ...]:
    data = record.as_data()
    origin = f"{data['origin_topic']}:{data['origin_partition']}:{data['origin_offset']}"
    shown = ("reason", "transaction_id", "group", "real_topic")
    return (
        record.record.at,
        time_text(record.record.time_ms),
        *(data[name] for name in shown),
        origin,
        record.resent_to or "-",
    )


def _whole(record: RefusedRecord, settings: Settings) -> dict[str, object]:
    found = record.record
    return {
        **_row(record, settings),
        "key_base64": None if found.key is None else _base64(found.key),
        "body_base64": _base64(found.value or b""),
        "headers": [(name, _text(value)) for name, value in found.headers],
    }


def _whole_text(record: RefusedRecord) -> str:
    found = record.record
    rows = [(name, _text(value)) for name, value in found.headers]
    rows += [("(key)", _text(found.key or b"")), ("(body)", _text(found.value or b""))]
    if record.resent_to:
        rows.append(("(resent to)", record.resent_to))
    return f"refused {_name(record)}\n{table_text(('header', 'value'), rows)}"


def _text(content: bytes) -> str:
    return content.decode("utf-8", "backslashreplace")


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _not_found(settings: Settings, name: str) -> NotFoundError:
    return NotFoundError(
        f"{settings.topics.refused} has no record {name}.",
        remedy="Run `checkback refused list` to see the records.",
        name=name,
    )
