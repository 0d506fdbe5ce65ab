"""``checkback discarded``: list, show and resume discarded half messages."""

from __future__ import annotations

from typing import Final

import click

from checkback.commands.shared.errors import EXIT_FOUND, EXIT_OK
from checkback.commands.shared.options import (
    filter_options,
    open_scanner,
    operator_facts,
    operator_option,
    yes_option,
)
from checkback.commands.shared.output import CommandOutput, output_option
from checkback.commands.shared.parked import ParkedText, called
from checkback.commands.shared.settings import settings_options
from checkback.operations.parked.discarded import REASONS, DiscardedHalf
from checkback.operations.parked.filter import RecordFilter
from checkback.operations.parked.resume import chosen_halves
from checkback.operations.parked.resume import resume as resume_chosen
from checkback.operations.topics.scanner import FoundRecord
from checkback.operations.transactions.timestamps import time_text
from checkback.protocol.configuration import Settings

DISCARD_REASON: Final = click.Choice(list(REASONS))


@click.group(help="List, show and resume discarded messages.")
def command() -> None:
    """Group the verbs."""


@command.command("list")
@filter_options(DISCARD_REASON, REASONS)
@output_option
@settings_options
def list_(settings: Settings, output: CommandOutput, wanted: RecordFilter) -> None:
    """List discarded messages, and which of them were resumed."""
    with open_scanner(settings) as scanner:
        found = chosen_halves(scanner, settings.topics, wanted)
    TEXT.show_list(output, found, wanted)


@command.command()
@click.argument("name", metavar="ID")
@output_option
@settings_options
def show(settings: Settings, output: CommandOutput, name: str) -> None:
    """Show a whole discarded message: its properties, key and body.

    ID is partition:offset of the record on the discarded topic, or the transaction id.
    """
    with open_scanner(settings) as scanner:
        wanted = RecordFilter(name=name)
        found = chosen_halves(scanner, settings.topics, wanted)
    wanted.require_found(settings.topics.discarded, "discarded", found)
    TEXT.show_whole(output, found, _properties, "property")


@command.command()
@click.argument("name", metavar="[ID]", default="")
@filter_options(DISCARD_REASON, REASONS)
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
    wanted: RecordFilter,
    name: str,  # noqa: ARG001 - part of the filter
    everything: bool,
    why: str,
    operator: str,
    is_certain: bool,
) -> int:
    """Resume discarded messages, each once.

    Each becomes a new half, with check requests counted from zero. ID is partition:offset of the
    record on the discarded topic, or the transaction id. The filters choose several messages. The
    discarded record stays; a note on the same topic names the new half. Without --yes the command
    only says what it would do.
    """
    facts = operator_facts(wanted, operator, why, everything=everything)
    with open_scanner(settings) as scanner:
        done = resume_chosen(scanner, settings, wanted, facts, is_certain=is_certain)
    TEXT.show_action(output, done, is_certain=is_certain)
    return EXIT_FOUND if done.stuck else EXIT_OK


def _properties(record: FoundRecord) -> dict[str, object]:
    return {
        "properties": {name: value.decode("utf-8", "replace") for name, value in record.headers}
    }


def _cells(half: DiscardedHalf) -> tuple[object, ...]:
    data = half.as_data()
    shown = ("transaction_id", "group", "real_topic", "reason", "check_times")
    return (
        half.record.at,
        *(data[name] for name in shown),
        time_text(half.record.time_ms),
        half.resumed_to or "-",
    )


TEXT: Final = ParkedText(
    kind="discarded",
    does="resume",
    done="resumed",
    name=lambda half: called(half.record.at, half.transaction_id, f"group {half.group}"),
    data=DiscardedHalf.as_data,
    headings=(
        "record", "transaction id", "group", "real topic", "reason", "checks", "half stored",
        "resumed to",
    ),
    cells=_cells,
)  # fmt: skip
