"""``checkback jars``: fetch the jars of Spark and Kafka."""

from __future__ import annotations

import click

from checkback.commands.core import CommandOutput, output_option
from checkback.deploy.jar_lock import LOCK_FILE, Conf
from checkback.deploy.jars import USUAL_CONFS, ensure_jars, renew_lock
from checkback.streaming.jars_folder import jars_folder


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
    """Fetch the missing jars and verify all of them."""
    confs: list[Conf] = [*USUAL_CONFS]
    if delta:
        confs.append("delta")
    if s3:
        confs.append("s3")
    jars = {conf: [str(path) for path in ensure_jars(conf)] for conf in confs}
    count = sum(len(paths) for paths in jars.values())
    output.show(
        {"folder": str(jars_folder()), "jars": jars}, f"{count} jars are in {jars_folder()}."
    )


@command.command()
@output_option
def lock(output: CommandOutput) -> None:
    """Resolve the jars again and lock their checksums (in a checkout)."""
    count = renew_lock()
    output.show({"lock": str(LOCK_FILE), "jars": count}, f"{count} jars are locked in {LOCK_FILE}.")


@command.command()
@output_option
def archive(output: CommandOutput) -> None:
    """Archive the classes of driver and broker: later starts are faster.

    Runs the pipeline over a few transactions on a broker of its own. Repeat this after a change of
    Java, pyspark or Checkback: the JVM does not use an archive of other versions.
    """
    from checkback.operations.class_archive_training import train_class_archives

    made = train_class_archives()
    size_mb = sum(path.stat().st_size for path in (made.driver, made.broker)) / 1e6
    output.show(
        {"archive": str(made.driver), "broker_archive": str(made.broker)},
        f"The classes are in {made.driver} and {made.broker} ({size_mb:.0f} MB).",
    )
