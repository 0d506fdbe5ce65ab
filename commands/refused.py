"""``checkback refused``: list and show refused records, and send refused finals again."""

from __future__ import annotations

from typing import Final

import click

from checkback.commands.shared.errors import EXIT_FOUND
from checkback.commands.shared.options import (
    ReasonType,
    filter_options,
    open_scanner,
    operator_facts,
    operator_option,
    yes_option,
)
from checkback.commands.shared.output import CommandOutput, output_option
from checkback.commands.shared.parked import ParkedText, called, content_text
from checkback.commands.shared.settings import settings_options
from checkback.operations.parked.filter import RecordFilter
from checkback.operations.parked.refused import RefusedRecord
from checkback.operations.parked.resend import chosen_records
from checkback.operations.parked.resend import resend as resend_chosen
from checkback.operations.topics.scanner import FoundRecord
from checkback.operations.transactions.timestamps import time_text
from checkback.protocol.configuration import Settings
from checkback.protocol.refusals import RefusedReason

REASONS: Final = {reason.name: reason.name for reason in RefusedReason}


@click.group(help="List and show refused records, and send refused finals again.")
def command() -> None:
    """Group the verbs."""


@command.command("list")
@filter_options(ReasonType(), REASONS)
@output_option
@settings_options
def list_(settings: Settings, output: CommandOutput, wanted: RecordFilter) -> None:
    """List refused records, and which of them were sent again."""
    with open_scanner(settings) as scanner:
        found = chosen_records(scanner, settings.topics, wanted)
    text_of(settings).show_list(output, found, wanted)


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
        found = chosen_records(scanner, settings.topics, wanted)
    wanted.require_found(settings.topics.refused, "refused", found)
    text_of(settings).show_whole(output, found, _headers, "header")


@command.command()
@click.argument("name", metavar="[ID]", default="")
@filter_options(ReasonType(), REASONS)
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
    text_of(settings).show_action(output, done, is_certain=is_certain)
    return EXIT_FOUND if done.stuck else 0


def text_of(settings: Settings) -> ParkedText[RefusedRecord]:
    """Return how refused records are printed."""
    half_topic = settings.topics.half
    return ParkedText(
        kind="refused",
        does="resend",
        done="resent",
        name=name_of,
        data=lambda one: {**one.as_data(), "obstacle": one.obstacle(half_topic)},
        headings=(
            "record", "refused", "reason", "transaction id", "group", "real topic", "from",
            "resent to",
        ),
        cells=_cells,
    )  # fmt: skip


def name_of(record: RefusedRecord) -> str:
    """Return what people call a record; by its reason, where it names nothing else."""
    who = [record.transaction_id, record.group and f"group {record.group}"]
    return called(record.record.at, *(who if any(who) else [record.reason]))


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


def _headers(record: FoundRecord) -> dict[str, object]:
    return {"headers": [(name, content_text(value)) for name, value in record.headers]}
