"""``checkback topics``: create and compare the topics."""

from __future__ import annotations

from dataclasses import asdict

import click

from checkback.deploy.topics import TopicReport, create_topics
from checkback.protocol.configuration import Settings
from checkback.streaming.commands.frame import EXIT_FOUND, EXIT_OK, Output, output_option
from checkback.streaming.commands.settings import settings_options


@click.group(help="Create and compare the topics.")
def command() -> None:
    """Group the verbs."""


@command.command()
@output_option
@settings_options
def create(settings: Settings, output: Output) -> int:
    """Create the topics that are missing; change none that exist.

    Exit code 1: a topic exists and differs from what these settings want.
    """
    reports = create_topics(settings)
    differs = any(report.differences for report in reports)
    output.show(
        {"topics": [asdict(report) for report in reports], "differs": differs},
        "\n".join(_line(report) for report in reports),
    )
    return EXIT_FOUND if differs else EXIT_OK


def _line(report: TopicReport) -> str:
    if not report.differences:
        return f"{report.name}: {'created' if report.created else 'as wanted'}"
    said = (f"{one.name} is {one.found}, wanted {one.wanted}" for one in report.differences)
    return f"{report.name}: {'; '.join(said)}"
