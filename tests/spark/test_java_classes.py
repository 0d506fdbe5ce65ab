"""The classes that decode are made once, and kept beside Spark's jars."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from checkback.streaming.jars_folder import sha256
from checkback.streaming.java_classes import DECODING, decoding_jar


@pytest.fixture
def jvm(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CHECKBACK_JARS", str(tmp_path))
    return tmp_path


def test_the_next_start_takes_the_jar_that_the_first_one_made(jvm: Any, jars: Path) -> None:
    made = decoding_jar(jvm)
    made_at_ns = made.stat().st_mtime_ns

    assert made.parent == jars
    assert decoding_jar(jvm) == made
    assert made.stat().st_mtime_ns == made_at_ns
    with zipfile.ZipFile(made) as archive:
        assert {f"checkback/{name}.class" for name in DECODING} <= set(archive.namelist())


def test_a_jar_that_is_torn_is_made_again(jvm: Any, jars: Path) -> None:
    torn = decoding_jar(jvm)
    torn.write_bytes(torn.read_bytes()[:1_000])

    made = decoding_jar(jvm)

    assert made.name.endswith(f"-{sha256(made)}.jar")
    assert zipfile.is_zipfile(made)


def test_a_start_that_may_not_write_there_makes_them_for_itself(
    jvm: Any, jars: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHECKBACK_JARS", str(jars / "absent"))

    made = decoding_jar(jvm)

    assert zipfile.is_zipfile(made)
    assert not (jars / "absent").exists()
