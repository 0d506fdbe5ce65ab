"""``checkback checkpoint rebuild``: a lost or damaged checkpoint, made anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from checkback.deploy.jars import ensure_jars
from checkback.deploy.java import find_java
from checkback.protocol.configuration import Settings
from checkback.streaming.commands.frame import Output, output_option
from checkback.streaming.commands.operating import yes_option
from checkback.streaming.commands.settings import settings_options

if TYPE_CHECKING:
    from checkback.checkpoints.rebuild import RebuildReport


@click.command()
@click.option(
    "--anew",
    is_flag=True,
    help="From the topics, though the checkpoint is whole or its end could be cut off.",
)
@click.option(
    "--unknown-are",
    type=click.Choice(["pending", "settled"]),
    help="What to take halves for whose marks may be gone; without it they are a reason to refuse.",
)
@yes_option
@output_option
@settings_options
def rebuild(
    settings: Settings,
    output: Output,
    is_certain: bool,
    anew: bool,
    unknown_are: Literal["pending", "settled"] | None,
) -> None:
    """Make a lost or damaged checkpoint anew, so that nothing is lost and nothing written twice.

    Looks first whether it is whole. Where only its end is torn and nothing of it was written, the
    end is cut off. Otherwise all is read from the topics: the settled marks say what is done, the
    halves and ops what is pending; the damaged folder is moved aside. Without --yes it only says
    what it would do. The pipeline must be stopped; one that still runs over the old checkpoint is
    refused while it writes, and ended for good.
    """
    find_java()
    jars = ensure_jars("spark")
    # Imported late: Spark takes its time.
    from checkback.checkpoints.rebuild import Rebuild

    report = Rebuild(settings, jars, is_certain, anew, unknown_are).run()
    output.show(report.as_data(), report_text(report))


def report_text(report: RebuildReport) -> str:
    """Return the report for people."""
    lines = [f"wrong: {one['file']}: {one['says']}" for one in report.problems]
    if report.how == "nothing":
        return f"{report.checkpoint} is whole: there is nothing to rebuild."
    lines += _cut_lines(report) if report.how == "cut" else _topic_lines(report)
    if report.dry_run:
        lines.append("Nothing was changed; --yes does it.")
    return "\n".join(lines)


def _cut_lines(report: RebuildReport) -> list[str]:
    cut = report.cut
    if cut is None:
        return []
    does = "would be cut off" if report.dry_run else "was cut off"
    last = "none" if cut.last_batch is None else str(cut.last_batch)
    goes_on = (
        "the next batch is planned anew"
        if cut.replayed is None
        else f"batch {cut.replayed} runs again as it was planned, and is not written twice"
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
        lines.append(f"The damaged checkpoint is now {report.moved_to}.")
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
        lines.append(f"At risk: {counts.lost} halves or ops whose half is gone from its topic.")
    if counts.unknown:
        lines.append(
            f"At risk: {counts.unknown} halves whose marks may be gone: choose by --unknown-are."
        )
    if counts.foreign:
        lines.append(
            f"At risk: {counts.foreign} marks of other halves; with --yes this is refused."
        )
    return lines
