"""A small run of the job, whose JVM leaves the archive of its classes behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from checkback.bench.query import Query
from checkback.bench.stage import QUICK_START, Stage
from checkback.deploy.class_archive import DUMP_OPTION, JAVA_OPTIONS, keep_archive
from checkback.deploy.jars import file_errors, jars_folder
from checkback.protocol.errors import OperationalError

TRANSACTIONS: Final = 200


def rehearse(stage: Stage) -> Path:
    """Run the job over a few transactions and return the archive of what its JVM loaded.

    Raises:
        OperationalError: the run failed, or this JVM leaves no archive.
        PrerequisiteError: the folder of the jars can't be written.
    """
    trial = stage.trial("rehearsal").create()
    trial.load(TRANSACTIONS)
    with file_errors(jars_folder()):
        folder = TemporaryDirectory(prefix="dumping-", dir=jars_folder())
    with folder as name:
        dumped = Path(name) / "driver.jsa"
        options = f'{QUICK_START[JAVA_OPTIONS]} "{DUMP_OPTION}{dumped}"'
        settings = replace(trial.settings, spark={**trial.settings.spark, JAVA_OPTIONS: options})
        with Query(trial, "job", ("-m", "checkback.bench.rehearsed_run"), settings) as query:
            query.wait_for_rows(2 * TRANSACTIONS)
            query.stop()
        if not dumped.is_file():
            raise OperationalError(
                "The JVM left no archive of its classes.",
                remedy="Nothing needs one; a newer Java may leave one.",
            )
        return keep_archive(dumped)
