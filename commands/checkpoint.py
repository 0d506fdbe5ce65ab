"""``checkback checkpoint``: inspect, verify, repartition and rebuild a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from checkback.commands.shared.errors import EXIT_FOUND, EXIT_OK
from checkback.commands.shared.options import yes_option
from checkback.commands.shared.output import CommandOutput, output_option, table_text
from checkback.commands.shared.settings import settings_options
from checkback.deploy.jars import pipeline_jars
from checkback.deploy.java import find_java
from checkback.operations.transactions.timestamps import now_ms, time_text
from checkback.protocol.configuration import Settings
from checkback.protocol.durations import duration_text

if TYPE_CHECKING:
    from checkback.operations.checkpoint.verification import Verification
    from checkback.operations.rebuild.rebuild import RebuildReport


@click.group(help="Inspect, verify, repartition or rebuild a checkpoint.")
def command() -> None:
    """Group the verbs."""


@command.command()
@output_option
@settings_options
def inspect(settings: Settings, output: CommandOutput) -> None:
    """Show what a checkpoint holds.

    Batches, offsets, lag, state and pending halves. Reads the last committed batch, also while the
    pipeline runs.
    """
    # Imported late: what reads Kafka and the state loads slowly.
    from checkback.operations.checkpoint.inspect import inspect as look
    from checkback.operations.checkpoint.open import open_state
    from checkback.streaming.start.preflight import require_settings

    require_settings(settings)
    with open_state(settings) as store:
        data = look(settings, store).as_data(now_ms())
    output.show({"checkpoint": settings.checkpoint, **data}, inspection_text(data))


def inspection_text(data: dict[str, Any]) -> str:
    """Return what a checkpoint holds for people."""
    oldest, at = data["oldest_pending_ms"], data["committed_at_ms"]
    facts = [
        ("application", data["application_id"]),
        ("query id", data["query_id"]),
        ("planned batch", _dash(data["planned_batch"])),
        ("committed batch", _dash(data["committed_batch"])),
        ("of", "-" if at is None else time_text(at)),
        ("records not read yet", _dash(data["lag"])),
        ("pending", data["pending"]),
        ("oldest pending", "-" if oldest is None else duration_text(oldest)),
        ("page size", data["page_size"]),
    ]
    positions = ("topic", "partition", "committed", "planned", "end", "lag")
    state = ("state_partition", "pages", "page_bytes", "file_bytes", "pending", "next_batch")
    tables = [
        table_text(("", ""), facts),
        _table_of(data["positions"], positions),
        _table_of(data["state"], state),
    ]
    return "\n\n".join([*tables, *map(problem_line, data["problems"])])


def problem_line(problem: Mapping[str, str]) -> str:
    """Return one of a checkpoint's problems for people, with what to do about it."""
    at = f"{problem['code']} {problem['file']}".rstrip()
    return f"{at}: {problem['says']} {problem['remedy']}"


def _table_of(rows: Sequence[Mapping[str, object]], keys: Sequence[str]) -> str:
    cells = [[_dash(row[key]) for key in keys] for row in rows]
    return table_text([key.replace("_", " ") for key in keys], cells)


def _dash(value: object) -> str:
    return "-" if value is None else str(value)


@command.command()
@click.option("--files-only", is_flag=True, help="Do not check the markers; needs no Kafka.")
@output_option
@settings_options
def verify(settings: Settings, output: CommandOutput, files_only: bool) -> int:
    """Check whether a checkpoint is whole and fits its markers.

    Changes nothing, and may be run while the pipeline runs. Exit code 1: something is wrong or
    missing.
    """
    # Imported late: what reads Kafka loads slowly.
    from checkback.operations.checkpoint.verify import verify_checkpoint
    from checkback.streaming.start.preflight import require_settings

    require_settings(
        settings, ["checkpoint"] if files_only else ["bootstrap_servers", "checkpoint"]
    )
    found = verify_checkpoint(settings, with_markers=not files_only)
    data = {"checkpoint": settings.checkpoint, **found.as_data()}
    output.show(data, verification_text(settings.checkpoint, found))
    return EXIT_OK if found.is_whole else EXIT_FOUND


def verification_text(path: str, found: Verification) -> str:
    """Return what was found for people."""
    batches = [
        ("planned", found.planned_batch),
        ("committed", found.committed_batch),
        ("whole up to", found.whole_batch),
    ]
    running = ", its pipeline runs" if found.is_running else ""
    lines = [
        f"{path}: {'whole' if found.is_whole else 'not whole'}" + running,
        f"batches: {', '.join(f'{name} {_dash(number)}' for name, number in batches)}",
    ]
    if found.markers is not None:
        rows = [(number, at - 1 if at else "-") for number, at in sorted(found.markers.items())]
        lines.append(table_text(("state partition", "last batch written"), rows))
    lines += [problem_line(asdict(problem)) for problem in found.problems]
    return "\n".join(lines)


@command.command()
@click.argument("partitions", metavar="N", type=click.IntRange(min=1))
@yes_option
@output_option
@settings_options
def repartition(
    settings: Settings, output: CommandOutput, partitions: int, is_certain: bool
) -> None:
    """Change a checkpoint to N state partitions. Stop the pipeline first.

    Without --yes the command only says what it would do. Afterwards set state_partitions to N, or
    leave the setting out.
    """
    find_java()
    # Imported late, because Spark loads slowly.
    from checkback.operations.checkpoint.open import open_checkpoint, require_not_running
    from checkback.operations.checkpoint.repartition import look_ahead
    from checkback.operations.checkpoint.repartition import repartition as change
    from checkback.streaming.start.preflight import require_settings

    require_settings(settings)
    require_not_running(settings)  # before Spark, which takes ten seconds to start
    with open_checkpoint(settings) as (spark, store):
        if not is_certain:
            plan = look_ahead(settings, store, partitions)
            output.show(
                {"dry_run": True, "before": plan.before, "after": plan.after},
                f"{plan.before} state partitions would become {plan.after}. "
                "Run again with --yes to do it.",
            )
            return
        done = change(settings, spark, store, partitions)
    output.show(
        {"dry_run": False, **asdict(done)},
        f"{done.before} state partitions became {done.after}, in batch {done.batch_id}. "
        f"Set state_partitions to {done.after}, or leave it out.",
    )


@command.command()
@click.option(
    "--from-topics",
    is_flag=True,
    help="Rebuild from the topics even if the checkpoint is whole.",
)
@click.option(
    "--unknown-are",
    type=click.Choice(["pending", "settled"]),
    help="How to treat halves if their marks may be gone; default: refuse.",
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

    No final message is lost or written twice. The command first verifies the checkpoint. If it is
    damaged, the command reads the topics: the settled marks say what is settled, the halves and ops
    what is pending. If they hold enough, it moves the damaged folder aside and writes a new one.
    Without --yes it only says what it would do. Stop the pipeline first: the command refuses while
    it sees a pipeline write, and permanently fences one that is idle.
    """
    find_java()
    jars = pipeline_jars(settings)
    # Imported late, because Spark loads slowly.
    from checkback.operations.rebuild.rebuild import Rebuild

    report = Rebuild(settings, jars, is_certain, from_topics, unknown_are).run()
    output.show(asdict(report), report_text(report))


def report_text(report: RebuildReport) -> str:
    """Return the report as text for people."""
    wrong = [
        filter(None, ("wrong", problem["file"], problem["says"])) for problem in report.problems
    ]
    lines = list(map(": ".join, wrong))
    if report.how == "nothing":
        return f"{report.checkpoint} is whole: there is nothing to rebuild."
    lines += _topic_lines(report)
    if report.dry_run:
        lines.append("Nothing was changed. Run again with --yes to do it.")
    return "\n".join(lines)


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
        found = asdict(counts)
        lines += [says.format(found[name]) for name, says in RISKS.items() if found[name]]
    if not report.dry_run:
        done = ", ".join(f"{name} {number}" for name, number in sorted(report.first_batch.items()))
        lines.append(f"First batch: {done or 'nothing to do'}.")
        lines.append("Start the pipeline with the same settings.")
    return lines


RISKS: Final = {
    "lost": "At risk: {} halves, or halves of ops, that are gone from the half topic.",
    "void": "Kafka lost halves with {} marks, which say nothing of others.",
    "unknown": "At risk: {} halves that may have lost their marks. Choose with --unknown-are.",
    "foreign": "At risk: {} marks of other halves. The rebuild refuses that.",
}
"""What the text says of a rebuild's counts."""
