"""``checkback report``: write what the console shows into one file."""

from __future__ import annotations

from pathlib import Path

import click

from checkback.commands.core import EXIT_FOUND, EXIT_OK, CommandOutput, output_option
from checkback.commands.metrics_option import metrics_url_option
from checkback.commands.scan_progress import told_meanwhile
from checkback.commands.settings import settings_options
from checkback.protocol.configuration import Settings


@click.command()
@click.option(
    "-o",
    "--file",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="File to write; a page that needs nothing else.",
)
@metrics_url_option
@output_option
@settings_options
def command(settings: Settings, output: CommandOutput, path: Path, metrics_url: str) -> int:
    """Write figures, groups, pending, discarded, refused, lag and checkpoint into one HTML file.

    For an incident: attach it, or keep it. Bodies, keys and properties are left out. Exit code 1: a
    source did not answer; its section says why.
    """
    from checkback.console.opening import open_sources
    from checkback.console.report import write_report

    sources = open_sources(settings, metrics_url)
    path.open("a").close()  # before they are asked: some may take long to answer
    with told_meanwhile(
        "Asking brokers, ledger and checkpoint; a source that is silent is given up after 20 s."
    ):
        report = write_report(sources)
    path.write_text(report.html, "utf-8")
    gaps = f" Without: {', '.join(report.missing)}." if report.missing else ""
    output.show(
        {"file": str(path), "bytes": len(report.html.encode()), "missing": list(report.missing)},
        f"Wrote {path}.{gaps}",
    )
    return EXIT_FOUND if report.missing else EXIT_OK
