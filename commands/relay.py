"""``checkback relay``: end clean, young transactions at once, beside the job."""

from __future__ import annotations

import sys
from typing import Any

import click

from checkback.commands.shared.output import CommandOutput, losing_lines, output_option
from checkback.commands.shared.settings import settings_options
from checkback.protocol.configuration import Settings


@click.command()
@click.option(
    "--instance",
    type=click.IntRange(0, 999),
    default=0,
    show_default=True,
    help="Number of this relay; each relay of a deployment needs its own.",
)
@output_option
@settings_options
def command(settings: Settings, output: CommandOutput, instance: int) -> None:
    """Run a relay until SIGTERM or Ctrl-C: commits become visible within milliseconds.

    It takes the same configuration as the job, which has relay = true. Prints one line per
    progress interval.
    """
    # Imported late: a wrong setting should be reported before Kafka's client loads.
    from checkback.relay.process import RelayProcess, require_relay

    require_relay(settings)
    lines = CommandOutput(as_json=output.as_json or not sys.stdout.isatty())

    def emit(event: str, facts: dict[str, Any]) -> None:
        said = " · ".join(f"{name} {value}" for name, value in facts.items())
        lines.line({"event": event, **facts}, f"{event}: {said}")

    RelayProcess(settings, instance, losing_lines(emit)).run()
