"""``checkback run``: the pipeline, until it is stopped."""

from __future__ import annotations

import sys
from typing import Any

import click

from checkback.deploy.jars import ensure_jars
from checkback.deploy.java import find_java
from checkback.protocol.configuration import Settings
from checkback.streaming.commands.frame import Output, output_option
from checkback.streaming.commands.settings import settings_options
from checkback.streaming.progress import line_text


@click.command()
@output_option
@settings_options
def command(settings: Settings, output: Output) -> None:
    """Run the transaction checker until SIGTERM or Ctrl-C ends it between two batches.

    Tells one line per progress interval: text on a terminal, JSON lines elsewhere. The first line
    says that the query runs (event "started"), the last one that it has ended ("stopped").
    """
    find_java()
    jars = ensure_jars("spark")
    # Imported late: Spark takes its time, and a mistake in a setting should be told before that.
    from checkback.streaming.job import Job
    from checkback.streaming.preflight import require_settings

    require_settings(settings)
    told = Output(as_json=output.as_json or not sys.stdout.isatty())

    def emit(event: str, facts: dict[str, Any]) -> None:
        told.line({"event": event, **facts}, line_text(event, facts))

    Job(settings, jars, emit).run()
