"""``checkback jars``: fetch the jars of Spark and Kafka."""

from __future__ import annotations

import click

from checkback.deploy.jars import CONFS, LOCK_FILE, ensure_jars, jars_folder, renew_lock
from checkback.streaming.commands.frame import Output, output_option


@click.group(help="Fetch the jars of Spark and Kafka.")
def command() -> None:
    """Group the verbs."""


@command.command()
@output_option
def fetch(output: Output) -> None:
    """Fetch the jars that are missing and verify all of them."""
    jars = {conf: [str(path) for path in ensure_jars(conf)] for conf in CONFS}
    count = sum(len(paths) for paths in jars.values())
    output.show(
        {"folder": str(jars_folder()), "jars": jars}, f"{count} jars are in {jars_folder()}."
    )


@command.command()
@output_option
def lock(output: Output) -> None:
    """Resolve ivy.xml anew and write the checksums of what came (for a checkout of Checkback)."""
    count = renew_lock()
    output.show({"lock": str(LOCK_FILE), "jars": count}, f"{count} jars are locked in {LOCK_FILE}.")
