"""``checkback doctor``: check everything that the pipeline needs."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from checkback.commands.shared.errors import EXIT_FOUND, EXIT_OK
from checkback.commands.shared.output import CommandOutput, output_option, wrapped
from checkback.commands.shared.settings import settings_options
from checkback.operations.transactions.timestamps import now_ms
from checkback.protocol.configuration import Settings

if TYPE_CHECKING:
    from checkback.operations.doctor.judgements import Diagnosis

INDENT: Final = " " * 9


@click.command()
@output_option
@settings_options
def command(settings: Settings, output: CommandOutput) -> int:
    """Check software, brokers, topics, clock, rights, checkpoint and producer groups.

    Writes one tick to the feedback topic, because only a record shows the brokers' time; the
    pipeline ignores it. Exit code 1: a check failed.
    """
    # Imported late: what reads Kafka loads slowly.
    from checkback.operations.doctor.doctor import Doctor
    from checkback.operations.doctor.judgements import Result

    findings = list(Doctor(settings, now_ms).findings())
    failed = sum(finding.result is Result.FAILED for finding in findings)
    output.show(
        {"checks": [asdict(finding) for finding in findings], "failed": failed},
        findings_text(findings, shutil.get_terminal_size().columns),
    )
    return EXIT_FOUND if failed else EXIT_OK


def findings_text(findings: Sequence[Diagnosis], width: int) -> str:
    """Return the findings for people, folded to the terminal: result, check, facts, remedy."""
    lines = []
    for finding in findings:
        lines.append(f"{finding.result:<{len(INDENT)}}{finding.check}: {finding.says}")
        lines += [f"{INDENT}{finding.remedy}"] if finding.remedy else []
    return wrapped("\n".join(lines), width, INDENT)
