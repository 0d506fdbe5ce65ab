"""``checkback tx``: show one transaction, or decide it by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from checkback.commands.shared.errors import EXIT_FOUND, EXIT_OK
from checkback.commands.shared.options import (
    AGE,
    ago_ms,
    open_finder,
    operator_facts,
    operator_option,
    yes_option,
)
from checkback.commands.shared.output import CommandOutput, output_option, table_text
from checkback.commands.shared.settings import settings_options
from checkback.metrics.printable import printable
from checkback.operations.parked.filter import RecordFilter
from checkback.operations.transactions.history import HistoryEvent, TransactionHistory
from checkback.operations.transactions.resolve import OpOutcome, decide
from checkback.operations.transactions.timestamps import time_text
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import UsageError
from checkback.protocol.records import Op

newer_than_option = click.option(
    "--newer-than", type=AGE, help="Search only among halves of at most this age: 2h, 3d."
)


@click.group(help="Show one transaction, or decide it by hand.")
def command() -> None:
    """Group the verbs."""


@command.command()
@click.argument("transaction", metavar="ID")
@newer_than_option
@output_option
@settings_options
def show(
    settings: Settings, output: CommandOutput, transaction: str, newer_than: int | None
) -> None:
    """Show the whole history of a transaction.

    That is its half, ops, checks, verdict and final message.

    ID is the transaction id, or partition:offset of the half. For an id the command searches the
    half topic from its beginning, or from --newer-than ago. It finds a position at once.
    """
    with open_finder(settings) as finder:
        found = finder.find(transaction, stored_from_ms=ago_ms(newer_than))
    output.show(
        {"transactions": [one.as_data() for one in found]},
        "\n\n".join(history_text(one) for one in found),
    )


@command.command()
@click.argument("transaction", metavar="ID")
@click.option("--commit", "is_commit", is_flag=True, help="Deliver its message.")
@click.option("--rollback", "is_rollback", is_flag=True, help="Drop its message.")
@click.option("--why", required=True, help="The reason; the op keeps it.")
@click.option(
    "--wait", "wait_s", type=click.FloatRange(min=0), default=30.0, show_default=True,
    metavar="SECONDS", help="How long to wait for the verdict.",
)  # fmt: skip
@newer_than_option
@operator_option
@yes_option
@output_option
@settings_options
def resolve(
    settings: Settings,
    output: CommandOutput,
    transaction: str,
    is_commit: bool,
    is_rollback: bool,
    why: str,
    wait_s: float,
    newer_than: int | None,
    operator: str,
    is_certain: bool,
) -> int:
    """Commit or roll back a pending transaction by hand.

    Appends an op as a producer would, with the operator and the reason in it. The pipeline accepts
    or refuses the op as it does every other. Without --yes the command only says what it would
    append.

    Exit code 1: the transaction had or got another verdict than you asked for, its final message
    was refused, or no verdict came in time.
    """
    if is_commit == is_rollback:
        raise UsageError("Give --commit or --rollback, one of them.")
    verdict = "commit" if is_commit else "rollback"
    facts = operator_facts(RecordFilter(transaction), operator, why, everything=False)
    with open_finder(settings) as finder:
        done = decide(
            finder, settings, transaction, verdict, facts,
            wait_s=wait_s if is_certain else None, stored_from_ms=ago_ms(newer_than),
        )  # fmt: skip
    # After the search: on a terminal its progress bar stands where the text goes.
    if done.op is None:
        return _tell_settled(output, done.found, verdict)
    if done.outcome is None:
        return _tell_plan(output, done.op, verdict)
    return _tell_outcome(output, done.op, verdict, done.outcome)


def _op_data(op: Op, verdict: str) -> dict[str, Any]:
    return {
        "transaction_id": op.transaction_id,
        "group": op.producer_group,
        "half_partition": op.half_partition,
        "half_offset": op.half_offset,
        "says": verdict,
        "reason": op.remark,
        "operator": op.operator,
    }


def _tell_settled(output: CommandOutput, found: Sequence[TransactionHistory], verdict: str) -> int:
    verdicts = {str(one.half_at): one.verdict for one in found}
    said = ", ".join(f"{at} has the verdict {one}" for at, one in verdicts.items())
    output.show(
        {"appended": False, "dry_run": False, "verdicts": verdicts},
        f"Nothing was appended: {said}.",
    )
    return EXIT_OK if set(verdicts.values()) == {verdict} else EXIT_FOUND


def _tell_plan(output: CommandOutput, op: Op, verdict: str) -> int:
    output.show(
        {"appended": False, "dry_run": True, "op": _op_data(op, verdict)},
        f"Would append for {op.half_partition}:{op.half_offset} ({op.transaction_id}, group "
        f"{op.producer_group}): {verdict}, by {op.operator}: {op.remark}. Give --yes to do it.",
    )
    return EXIT_OK


def _tell_outcome(output: CommandOutput, op: Op, verdict: str, outcome: OpOutcome) -> int:
    at = outcome.op_at
    data = {
        "appended": True,
        "dry_run": False,
        "op": {**_op_data(op, verdict), "partition": at.partition, "offset": at.offset},
        **outcome.as_data(),
    }
    output.show(data, outcome.as_text())
    return EXIT_OK if outcome.matches(verdict) else EXIT_FOUND


def history_text(history: TransactionHistory) -> str:
    """Return the history of a transaction for people."""
    by = f", delivered by the {history.delivered_by}" if history.delivered_by else ""
    head = printable(
        f"transaction {history.transaction_id or '(its half is gone)'}  half {history.half_at}  "
        f"group {history.group}  real topic {history.real_topic}  verdict {history.verdict}{by}"
    )
    rows = [
        (time_text(event.time_ms), event.kind, f"{event.topic} {event.at}", _facts(event))
        for event in history.events
    ]
    return f"{head}\n{table_text(('time', 'what', 'where', ''), rows)}"


def _facts(event: HistoryEvent) -> str:
    # Not by membership: batch 0 and offset 0 would equal False.
    known = {
        key: value
        for key, value in event.facts.items()
        if value is not None and value is not False and value != ""
    }
    properties = known.pop("properties", {})
    return "  ".join(f"{key}={value}" for key, value in {**known, **properties}.items())
