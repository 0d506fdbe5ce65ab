"""The settings of the run that writes the class archive; test_class_archive.py runs it."""

from __future__ import annotations

from pathlib import Path

from tools import class_archives

from checkback.streaming.spark.class_archive import DUMP_OPTION, JAVA_OPTIONS
from checkback.testing.pipeline_process import QUICK_JVM
from checkback.testing.topics import Topics


def test_the_jvm_writes_its_archive_where_the_training_looks_for_it(tmp_path: Path) -> None:
    plain = Topics("kafka:9092", "archive-").settings(tmp_path / "checkpoint")
    settings = class_archives._dumping(plain, tmp_path / "driver.jsa")

    assert settings.spark[JAVA_OPTIONS] == f'{QUICK_JVM} "{DUMP_OPTION}{tmp_path}/driver.jsa"'
    # With a separate log the test could not see when the JVM has ended and the archive is complete.
    assert settings.log_file == "-"
