"""``checkback checkpoint rebuild``: replace a lost or damaged checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from checkback.commands.core import CommandOutput, output_option
from checkback.commands.operator_options import yes_option
from checkback.commands.settings import settings_options
from checkback.commands.table import terminal_text
from checkback.deploy.jars import pipeline_jars
from checkback.deploy.java import find_java
from checkback.protocol.configuration import Settings

if TYPE_CHECKING:
    from checkback.operations.rebuild.rebuild import RebuildReport


@click.command()
@click.option(
    "--from-topics",
    is_flag=True,
    help="Rebuild from the topics even if the checkpoint is whole or cutting off its end would do.",
)
@click.option(
    "--unknown-are",
    type=click.Choice(["pending", "settled"]),
    help="How to treat halves whose marks may be gone; default: refuse.",
)
@yes_option
@output_option
@settings_options
def rebuild(
    settings: Settings,
    output: CommandOutput,
    is_certain: bool,
    from_topics: bool,
    unknown_are: Literal["pending", "settled"] | None,
) -> None:
    """Rebuild a lost or damaged checkpoint.

    No final message is lost or written twice. The command first verifies the checkpoint. If only
    its end is torn, it cuts the end off where that is safe. Otherwise it moves the damaged folder
    aside and reads the topics: the settled marks say what is settled, the halves and ops what is
    pending. Without --yes it only says what it would do. Stop the pipeline first: the command
    refuses while it sees a pipeline write, and permanently fences one that is idle.
    """
    find_java()
    jars = pipeline_jars(settings)
    # Imported late, because Spark loads slowly.
    from checkback.operations.rebuild.rebuild import Rebuild

    report = Rebuild(settings, jars, is_certain, from_topics, unknown_are).run()
    output.show(report.as_data(), terminal_text(report_text(report)))


def report_text(report: RebuildReport) -> str:
    """Return the report as text for people."""
    wrong = [filter(None, ("wrong", one["file"], one["says"])) for one in report.problems]
    lines = list(map(": ".join, wrong))
    if report.how == "nothing":
        return f"{report.checkpoint} is whole: there is nothing to rebuild."
    lines += _cut_lines(report) if report.how == "cut" else _topic_lines(report)
    if report.dry_run:
        lines.append("Nothing was changed. Run again with --yes to do it.")
    return "\n".join(lines)


def _cut_lines(report: RebuildReport) -> list[str]:
    cut = report.cut
    if cut is None:
        return []
    does = "would be cut off" if report.dry_run else "was cut off"
    last = "none" if cut.last_batch is None else str(cut.last_batch)
    goes_on = (
        "Spark plans the next batch again"
        if cut.replayed is None
        else f"batch {cut.replayed} runs again as planned, and is not written twice"
    )
    return [
        (
            f"{', '.join(cut.files)} {does} from {report.checkpoint}: last whole batch {last}; "
            f"{goes_on}."
        )
    ]


def _topic_lines(report: RebuildReport) -> list[str]:
    lines = []
    if report.moved_to:
        lines.append(f"The old checkpoint is now {report.moved_to}.")
    if report.ended_queries:
        does = "would be ended" if report.dry_run else "were ended"
        lines.append(f"Queries that {does} for good: {', '.join(report.ended_queries)}.")
    counts = report.counts
    if counts is not None:
        does = "would be rebuilt" if report.dry_run else "is rebuilt"
        lines += [
            (
                f"{report.checkpoint} {does} from the topics: {counts.halves} halves, "
                f"{counts.settled} settled, {counts.pending} pending ({counts.asked} asked back), "
                f"{counts.ops} ops and refusals left for the first batch."
            )
        ]
        lines += _risk_lines(report)
    if not report.dry_run:
        done = ", ".join(f"{name} {number}" for name, number in sorted(report.first_batch.items()))
        lines.append(f"First batch: {done or 'nothing to do'}.")
        lines.append("Start the pipeline with the same settings.")
    return lines


def _risk_lines(report: RebuildReport) -> list[str]:
    counts = report.counts
    if counts is None:
        return []
    lines = []
    if counts.lost:
        lines.append(
            f"At risk: {counts.lost} halves or ops whose half is gone from the half topic."
        )
    if counts.unknown:
        lines.append(
            f"At risk: {counts.unknown} halves whose marks may be gone. Choose with --unknown-are."
        )
    if counts.foreign:
        lines.append(f"At risk: {counts.foreign} marks of other halves. The rebuild refuses that.")
    return lines
