"""``checkback topics``: create and compare the topics."""

from __future__ import annotations

from dataclasses import asdict

import click

from checkback.commands.shared.errors import EXIT_FOUND, EXIT_OK
from checkback.commands.shared.output import CommandOutput, output_option
from checkback.commands.shared.settings import settings_options
from checkback.deploy.topics import TopicReport, create_topics
from checkback.protocol.configuration import Settings


@click.group(help="Create and compare the topics.")
def command() -> None:
    """Group the verbs."""


@command.command()
@click.option(
    "--real-topic",
    "real_topics",
    multiple=True,
    metavar="NAME",
    help="A topic of your own, made too if it is missing; can be repeated.",
)
@output_option
@settings_options
def create(settings: Settings, output: CommandOutput, real_topics: tuple[str, ...]) -> int:
    """Create the topics that are missing; change none that exist.

    Exit code 1: a topic exists and differs from what these settings want.
    """
    reports = create_topics(settings, real_topics)
    differs = any(report.differences for report in reports)
    output.show(
        {"topics": [asdict(report) for report in reports], "differs": differs},
        "\n".join(_line(report) for report in reports),
    )
    return EXIT_FOUND if differs else EXIT_OK


def _line(report: TopicReport) -> str:
    if not report.differences:
        return f"{report.name}: {'created' if report.created else 'as wanted'}"
    said = (f"{it.name} is {it.found}, wanted {it.wanted}" for it in report.differences)
    return f"{report.name}: {'; '.join(said)}"
