"""``checkback jars``: fetch the jars of Spark and Kafka."""

from __future__ import annotations

import click

from checkback.deploy.jars import (
    LOCK_FILE,
    USUAL_CONFS,
    ensure_jars,
    jars_folder,
    renew_lock,
)
from checkback.streaming.commands.frame import Output, output_option


@click.group(help="Fetch the jars of Spark and Kafka.")
def command() -> None:
    """Group the verbs."""


@command.command()
@output_option
def fetch(output: Output) -> None:
    """Fetch the jars that are missing and verify all of them."""
    jars = {conf: [str(path) for path in ensure_jars(conf)] for conf in USUAL_CONFS}
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


@command.command()
@output_option
def archive(output: Output) -> None:
    """Write the classes of a Spark driver into an archive, with which later starts are faster.

    Runs the pipeline over a few transactions on a broker of its own. To be repeated after a change
    of Java, pyspark or Checkback: an archive of others is not used.
    """
    from checkback.bench.rehearsal import rehearse
    from checkback.streaming.commands.bench_stage import Common, bench_stage

    small = Common(None, "archive-", None, 0, 100, (), True, None, None)
    with bench_stage(small) as stage:
        path = rehearse(stage)
    size_mb = path.stat().st_size / 1e6
    output.show({"archive": str(path)}, f"The classes are in {path} ({size_mb:.0f} MB).")
