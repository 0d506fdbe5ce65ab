"""The jars' lock, their verification and Java detection; fetching is tested with the commands."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from tools import lock_jars

from checkback.deploy import jars
from checkback.deploy.jars import LOCK_FILE, LockedJar, locked_jars
from checkback.deploy.java import find_java, java_version
from checkback.protocol.errors import OperationalError, PrerequisiteError
from checkback.streaming.spark.jars import jars_folder


def fake_java(folder: Path, version_line: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{version_line}' >&2\n")
    java.chmod(0o755)
    return java


def test_spark_gets_no_second_copy_of_what_pyspark_ships() -> None:
    from importlib.util import find_spec

    found = find_spec("pyspark")
    assert found is not None
    assert found.submodule_search_locations is not None

    def name(jar: str) -> str:
        return re.sub(r"-\d[\w.-]*\.jar$", "", jar)

    shipped = {
        name(one.name) for one in (Path(found.submodule_search_locations[0]) / "jars").iterdir()
    }
    assert not {name(jar) for jar in jars.read_lock()["spark"]} & shipped


def test_jars_are_where_the_variable_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CHECKBACK_JARS", str(tmp_path))

    assert {path.parent for path in jars.jar_paths("kafka")} == {tmp_path / "kafka"}


def test_without_that_variable_they_are_inside_the_python_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CHECKBACK_JARS", raising=False)

    assert jars_folder().is_relative_to(sys.prefix)


def test_a_wrong_checksum_is_told_with_both_and_the_way_out(tmp_path: Path) -> None:
    jar = tmp_path / "a-1.jar"
    jar.write_bytes(b"not what it was")
    right, wrong = hashlib.sha256(b"what it was").hexdigest(), hashlib.sha256(b"not what it was")

    with pytest.raises(OperationalError) as told:
        jars.verify([jar], {"a-1.jar": right})

    for fact in (str(jar), right, wrong.hexdigest(), "checkback jars fetch"):
        assert fact in str(told.value)


def test_the_lock_has_the_coordinates_of_every_jar() -> None:
    """Who looks for known weaknesses of a jar asks by them."""
    found = list(locked_jars())
    root = ET.parse(jars.IVY_FILE).getroot()  # noqa: S314 - our own file
    named = {
        (
            one.attrib["conf"].split("->")[0],
            one.attrib["org"],
            one.attrib["name"],
            one.attrib["rev"],
        )
        for one in root.iter("dependency")
    }

    assert "".join(one.line() for one in found) == LOCK_FILE.read_text("ascii")
    assert named <= {(one.conf, *one[3:]) for one in found}
    assert {one.file for one in found} == {f"{one.artifact}-{one.version}.jar" for one in found}


def test_a_renewed_lock_has_what_ivy_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(_: Path, into: Path, *__: object) -> None:
        for conf in ("spark", "kafka"):
            jar = (
                into / conf / "org.apache.kafka" / "kafka-clients" / "1.2" / "kafka-clients-1.2.jar"
            )
            jar.parent.mkdir(parents=True)
            jar.write_bytes(b"jar")

    monkeypatch.setenv("CHECKBACK_JARS", str(tmp_path))
    monkeypatch.setattr(lock_jars, "run_ivy", fetch)
    digest = hashlib.sha256(b"jar").hexdigest()
    clients = ("kafka-clients-1.2.jar", "org.apache.kafka", "kafka-clients", "1.2")

    assert lock_jars.renew_lock(tmp_path / "jars.lock") == 2
    assert list(locked_jars(tmp_path / "jars.lock")) == [
        LockedJar(digest, "kafka", *clients),
        LockedJar(digest, "spark", *clients),
    ]


def test_a_damaged_lock_is_told(tmp_path: Path) -> None:
    lock = tmp_path / "jars.lock"
    lock.write_text("0123  spark/a-1.jar\n")

    with pytest.raises(OperationalError, match="not a checksum"):
        jars.read_lock(lock)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("java.io.IOException: No space left on device", "No space is left on the disk"),
        ("[FAILED] java.net.UnknownHostException: nowhere", "no connection"),
        (":: org.apache.kafka#kafka_2.13;9.9: not found", "org.apache.kafka#kafka_2.13;9.9"),
        ("something else\n", "Ivy failed: something else"),
        ("", "Ivy failed: it said nothing"),
    ],
)
def test_what_ivy_says_becomes_one_sentence(said: str, expected: str, tmp_path: Path) -> None:
    error = jars._ivy_error(said, tmp_path)

    assert expected in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "25" 2025-09-16', 25),
    ],
)
def test_java_versions_are_read_in_their_old_and_new_form(
    line: str, version: int, tmp_path: Path
) -> None:
    assert java_version(fake_java(tmp_path, line)) == version


def test_java_home_comes_before_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = fake_java(tmp_path / "home", 'openjdk version "21.0.1"')
    other = fake_java(tmp_path / "path", 'openjdk version "17.0.1"')
    monkeypatch.setenv("PATH", f"{other.parent}:/bin")

    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == java
    monkeypatch.delenv("JAVA_HOME")
    assert find_java() == other


@pytest.mark.parametrize(
    ("line", "said"),
    [('openjdk version "11.0.2"', "is version 11, too old"), ("hello", "reports no version")],
)
def test_a_java_that_will_not_do_is_told_with_what_to_install(
    line: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_java(tmp_path, line)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(PrerequisiteError, match=f"{said}.*Install Java 17 or later"):
        find_java()


def test_no_java_at_all_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PrerequisiteError, match="Java is not installed"):
        find_java()

    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PrerequisiteError, match="contains no Java"):
        find_java()
