"""``checkback jars``: fetch the jars of Spark and Kafka."""

from __future__ import annotations

import click

from checkback.commands.shared.output import CommandOutput, output_option
from checkback.deploy.jars import USUAL_CONFS, Conf, ensure_classes, ensure_jars
from checkback.streaming.spark.jars import jars_folder


@click.group(help="Fetch the jars of Spark and Kafka.")
def command() -> None:
    """Group the verbs."""


@command.command()
@click.option(
    "--delta", is_flag=True, help="Also fetch the jars with which Spark reads the ledger."
)
@click.option("--s3", is_flag=True, help="Also fetch the jars of a checkpoint on S3.")
@output_option
def fetch(output: CommandOutput, *, delta: bool, s3: bool) -> None:
    """Fetch and verify the jars, and compile Checkback's classes."""
    confs: list[Conf] = [*USUAL_CONFS]
    if delta:
        confs.append("delta")
    if s3:
        confs.append("s3")
    jars = {conf: [str(path) for path in ensure_jars(conf)] for conf in confs}
    count = sum(len(paths) for paths in jars.values())
    classes = ensure_classes()
    output.show(
        {"folder": str(jars_folder()), "jars": jars, "classes": str(classes)},
        f"{count} jars are in {jars_folder()}.",
    )
