"""``checkback doctor``: whether all is as the pipeline needs it."""

from __future__ import annotations

from dataclasses import asdict

import click

from checkback.protocol.configuration import Settings
from checkback.streaming.commands.frame import EXIT_FOUND, EXIT_OK, Output, output_option
from checkback.streaming.commands.operating import now_ms
from checkback.streaming.commands.settings import settings_options
from checkback.streaming.commands.table import table_text


@click.command()
@output_option
@settings_options
def command(settings: Settings, output: Output) -> int:
    """Look at software, brokers, topics, clock, rights, checkpoint and producer groups.

    Writes one record that means nothing to the op topic, because only so the brokers tell their
    time. Exit code 1: a check failed.
    """
    # Imported late: Spark takes its time.
    from checkback.operations.diagnosis import Result
    from checkback.operations.doctor import Doctor

    findings = list(Doctor(settings, now_ms).findings())
    failed = sum(one.result is Result.FAILED for one in findings)
    output.show(
        {"checks": [asdict(one) for one in findings], "failed": failed},
        table_text(
            ("check", "result", "", "what to do"),
            [(one.check, one.result, one.says, one.remedy) for one in findings],
        ),
    )
    return EXIT_FOUND if failed else EXIT_OK
