"""``checkback deploy``: what a cluster needs to run the pipeline, and Prometheus to watch it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import click

from checkback.commands.shared.output import CommandOutput, output_option
from checkback.commands.version import known_commit
from checkback.deploy.alerts import rule_text
from checkback.protocol.errors import ConfigurationError


@click.group(help="Pack what a cluster needs to run the pipeline; write the alert rules.")
def command() -> None:
    """Group the verbs."""


@command.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--s3", "has_s3", is_flag=True, help="Also the jars of a checkpoint on S3.")
@output_option
def pack(output: CommandOutput, folder: Path, *, has_s3: bool) -> None:
    """Write what spark-submit sends to a cluster into FOLDER.

    That is Checkback as a zip, its jars and a program; the command prints spark-submit's options.
    The Python of driver and executors has to have what requirements/spark.txt names.
    """
    from checkback.deploy.pack import write_pack

    written = write_pack(folder, ("spark", "s3") if has_s3 else ("spark",), known_commit())
    options = [*written.submit_options, str(written.program)]
    output.show(
        {
            "package": str(written.package),
            "program": str(written.program),
            "jars": [str(jar) for jar in written.jars],
            "options": options,
        },
        " ".join(["spark-submit", *options, "run --config checkback.toml"]),
        is_folded=False,
    )


@command.command()
@click.option(
    "--runbooks",
    default="",
    metavar="URL",
    help="Where you publish the page of alerts; each alert then links its section there.",
)
@output_option
def alerts(output: CommandOutput, runbooks: str) -> None:
    """Print the alert rules for Prometheus."""
    if runbooks:
        _require_page(runbooks)
    text = rule_text(runbooks)
    output.show({"rules": text}, text.rstrip("\n"), is_folded=False)


def _require_page(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc or "#" in url:
        raise ConfigurationError(
            f"--runbooks {url} is not the address of a page.",
            remedy="For example https://docs.example.org/operating/alerts.html, without a section.",
        )
