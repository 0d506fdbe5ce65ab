"""Archives the classes of driver and broker: ``python -m tools.class_archives``, run by set-up.

It runs the job and a broker over a few transactions, and their JVMs write what they loaded. Run it
again after a change of Java, pyspark or Checkback: a JVM ignores an archive of other versions.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from checkback.deploy.jars import file_errors
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import CheckbackError, OperationalError
from checkback.streaming.spark.class_archive import (
    BROKER,
    DRIVER,
    DUMP_OPTION,
    JAVA_OPTIONS,
    ClassArchive,
)
from checkback.streaming.spark.jars import jars_folder
from checkback.testing.broker import QUICK_START, Broker
from checkback.testing.pipeline_process import PipelineProcess
from checkback.testing.topics import COMMIT, Topics

TRANSACTIONS: Final = 200
REAL_TOPIC: Final = "orders"
DUMP_TIMEOUT_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class TrainedArchives:
    """Where the archives of the driver and of the embedded broker are."""

    driver: Path
    broker: Path


def train_class_archives() -> TrainedArchives:
    """Run the job over a few transactions and keep the classes of its JVM and of its broker's.

    Raises:
        OperationalError: the run failed, or this JVM wrote no archive.
        PrerequisiteError: the folder of the jars can't be written.
    """
    with ExitStack() as ending:
        folder = Path(ending.enter_context(TemporaryDirectory(prefix="checkback-archive-")))
        with file_errors(jars_folder()):
            # On the disk of the jars' folder, so that a rename can move the archives there.
            dumping = TemporaryDirectory(prefix="dumping-", dir=jars_folder())
        dumped = Path(ending.enter_context(dumping))
        driver, broker = dumped / "driver.jsa", dumped / "broker.jsa"
        with Broker(folder / "broker", jvm_options=_broker_options(broker)) as running:
            topics = Topics(running.bootstrap_servers, "archive-")
            _run(topics, _dumping(topics.settings(folder / "checkpoint"), driver), folder)
        return TrainedArchives(_kept(DRIVER, driver), _kept(BROKER, broker))


def _broker_options(dumped: Path) -> tuple[str, ...]:
    return (*QUICK_START, f"{DUMP_OPTION}{dumped}")


def _kept(archive: ClassArchive, dumped: Path) -> Path:
    if not dumped.is_file():
        raise OperationalError(
            "The JVM wrote no archive of its classes.",
            remedy="Checkback works without it; a newer Java may write one.",
        )
    return archive.keep(dumped)


def _run(topics: Topics, settings: Settings, folder: Path) -> None:
    """Let the pipeline deliver a few transactions; return when its JVM has ended, too."""
    topics.create(settings, [REAL_TOPIC])
    for number in range(TRANSACTIONS):
        name = f"t-{number}"
        topics.send_op(topics.send_half(name.encode(), REAL_TOPIC), name, COMMIT)
    with PipelineProcess(settings, folder / "job") as pipeline:
        finals = 0
        while finals < TRANSACTIONS:
            finals += pipeline.wait_for("progress")["counts"].get("finals", 0)
        if pipeline.terminate() != 0:
            raise OperationalError("The run did not end as it should.", remedy=pipeline.errors())
        pipeline.wait_for_jvm(DUMP_TIMEOUT_S)


def _dumping(settings: Settings, dumped: Path) -> Settings:
    """Return settings for a run that writes an archive of the JVM and sends no check requests."""
    options = f'{settings.spark[JAVA_OPTIONS]} "{DUMP_OPTION}{dumped}"'
    spark = {**settings.spark, JAVA_OPTIONS: options}
    # On the driver's own output: its end shows that the JVM has ended.
    return replace(settings, transaction_timeout_ms=3_600_000, spark=spark, log_file="-")


def main() -> int:
    """Make the archives, and say where they are; return the exit code."""
    try:
        made = train_class_archives()
    except CheckbackError as error:
        print(f"checkback: {error}", file=sys.stderr)
        return error.exit_code
    size_mb = sum(path.stat().st_size for path in (made.driver, made.broker)) / 1e6
    print(f"The classes are in {made.driver} and {made.broker} ({size_mb:.0f} MB).")
    return 0


if __name__ == "__main__":
    sys.exit(main())
