"""``checkback refused``: list and show refused records, and send refused finals again."""

from __future__ import annotations

from typing import Final

import click

from checkback.commands.shared.errors import EXIT_FOUND
from checkback.commands.shared.options import (
    Decorator,
    DurationType,
    ReasonType,
    filter_options,
    open_scanner,
    operator_facts,
    operator_option,
    yes_option,
)
from checkback.commands.shared.output import (
    CommandOutput,
    content_data,
    content_rows,
    content_text,
    list_text,
    output_option,
    table_text,
    terminal_text,
)
from checkback.commands.shared.settings import settings_options
from checkback.metrics.printable import printable
from checkback.operations.parked.filter import RecordFilter
from checkback.operations.parked.refused import RefusedRecord
from checkback.operations.parked.resend import Resending, chosen_records
from checkback.operations.parked.resend import resend as resend_chosen
from checkback.operations.transactions.timestamps import time_text
from checkback.protocol.configuration import Settings
from checkback.protocol.refusals import RefusedReason

HEADINGS = (
    "record", "refused", "reason", "transaction id", "group", "real topic", "from", "resent to",
)  # fmt: skip


FILTER_OPTIONS: Final[list[Decorator]] = [
    click.option("--group", default="", help="Only records that name this producer group."),
    click.option("--topic", default="", help="Only records that name this real topic."),
    click.option(
        "--older-than", type=DurationType(), help="Only what was refused at least this long ago."
    ),
    click.option(
        "--newer-than", type=DurationType(), help="Only what was refused at most this long ago."
    ),
    click.option(
        "--reason",
        type=ReasonType(),
        metavar="REASON",
        help="Only records refused for this reason, such as REAL_TOPIC_MISSING.",
    ),
]
REASONS: Final = {reason.name: reason.name for reason in RefusedReason}


@click.group(help="List and show refused records, and send refused finals again.")
def command() -> None:
    """Group the verbs."""


@command.command("list")
@filter_options(FILTER_OPTIONS, REASONS)
@output_option
@settings_options
def list_(settings: Settings, output: CommandOutput, wanted: RecordFilter) -> None:
    """List refused records, and which of them were sent again."""
    with open_scanner(settings) as scanner:
        found = chosen_records(scanner, settings, wanted)
    cells = [_cells(one) for one in found]
    text = list_text(HEADINGS, cells, "Nothing was refused.", is_filtered=not wanted.is_open)
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
        wanted = RecordFilter(name=name)
        found = chosen_records(scanner, settings, wanted)
    wanted.require_found(settings.topics.refused, "refused", found)
    output.show(
        {"refused": [_whole(one, settings) for one in found]},
        "\n\n".join(_whole_text(one) for one in found),
    )


@command.command()
@click.argument("name", metavar="[ID]", default="")
@filter_options(FILTER_OPTIONS, REASONS)
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
    wanted: RecordFilter,
    name: str,  # noqa: ARG001 - part of the filter
    everything: bool,
    force: bool,
    why: str,
    operator: str,
    is_certain: bool,
) -> int:
    """Send the refused finals of committed halves, each once.

    For a real topic that was missing, forbidden or too small, and is mended now. ID is
    partition:offset of the record on the refused topic, or the transaction id; the filters choose
    several records. The refused record stays; a note on the same topic names the final. Without
    --yes the command only says what it would do. Where access is controlled, access_key and
    secret_key must be those of an admin account.
    """
    facts = operator_facts(wanted, operator, why, everything=everything)
    with open_scanner(settings) as scanner:
        done = resend_chosen(
            scanner, settings, wanted, facts, is_certain=is_certain, is_forced=force
        )
    _tell(output, settings, done, is_certain=is_certain)
    return EXIT_FOUND if done.stuck else 0


def _tell(output: CommandOutput, settings: Settings, done: Resending, *, is_certain: bool) -> None:
    rows = [{**_row(one.refused, settings), "resent_to": one.to} for one in done.resent]
    verb = "resent to {}" if is_certain else "would be resent"
    lines = [f"{name_of(one.refused)}: {verb.format(one.to)}" for one in done.resent]
    lines += [f"{name_of(one)}: already resent to {one.resent_to}" for one in done.already]
    lines += [f"{name_of(one.refused)}: can't be resent: {one.obstacle}" for one in done.stuck]
    if done.skipped:
        lines.append(f"{done.skipped:,} skipped: there is no final message of them to send.")
    if done.resent and not is_certain:
        lines.append("Run again with --yes to do it.")
    output.show(
        {
            "dry_run": not is_certain,
            "resent": rows if is_certain else [],
            "would_resend": [] if is_certain else rows,
            "already_resent": [_row(one, settings) for one in done.already],
            "cannot_resend": [
                {**_row(one.refused, settings), "obstacle": one.obstacle} for one in done.stuck
            ],
            "skipped": done.skipped,
        },
        terminal_text("\n".join(lines) or "No refused record matches."),
    )


def _row(record: RefusedRecord, settings: Settings) -> dict[str, object]:
    return {**record.as_data(), "obstacle": record.obstacle(settings.topics.half)}


def name_of(record: RefusedRecord) -> str:
    """Return what a person calls a record: its place, and whose it is where it says so."""
    who = [record.transaction_id, record.group and f"group {record.group}"]
    said = ", ".join(filter(None, who)) or record.reason
    return printable(f"{record.record.at} ({said})")


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
        **content_data(found),
        "headers": [(name, content_text(value)) for name, value in found.headers],
    }


def _whole_text(record: RefusedRecord) -> str:
    rows = content_rows(record.record)
    if record.resent_to:
        rows.append(("(resent to)", record.resent_to))
    return f"refused {name_of(record)}\n{table_text(('header', 'value'), rows)}"
