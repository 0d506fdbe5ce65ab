"""The command line as a user has it: help, exit codes, errors in both outputs."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from tests.integration.running import SPARK, printed_without
from tests.programs import COMMAND, checkback, output_of

from checkback.commands.shared.app import NOUNS
from checkback.deploy.jars import ensure_jars
from checkback.protocol.errors import BrokerError


def test_help_names_every_noun_and_imports_nothing_that_takes_long() -> None:
    told = printed_without(f"{SPARK},confluent_kafka,kafka,numpy,pyarrow,pydantic", "--help")

    assert all(f"  {noun}" in told for noun in NOUNS)


def in_shell(command: str) -> int:
    return subprocess.run(["/bin/sh", "-c", command], timeout=120, check=False).returncode


def test_streams_that_are_closed_change_no_exit_code(tmp_path: Path) -> None:
    """As where a supervisor starts it without them; exit codes tell it whether to try again."""
    run = f"run --bootstrap-servers 127.0.0.1:1 --checkpoint {tmp_path}/none"

    assert in_shell(f"{COMMAND} {run} <&- >&- 2>&-") == BrokerError.exit_code
    for closed in (">&-", "2>&-", "<&- >&- 2>&-"):
        assert in_shell(f"{COMMAND} config show {closed}") == 0, closed


def test_what_a_child_gets_in_place_of_a_closed_stream_is_no_file_of_ours() -> None:
    program = (
        "import os, subprocess, sys; from checkback.commands import open_missing_streams;"
        "open_missing_streams(); kept = open('/dev/zero');"
        "code = subprocess.call(['sh', '-c', 'readlink /proc/$$/fd/1']); print('lost');"
        "sys.exit(os.readlink('/proc/self/fd/1') != os.devnull or kept.fileno() < 3 or code)"
    )

    assert in_shell(f"{shlex.join([sys.executable, '-c', program])} >&-") == 0


def test_nouns_that_need_no_spark_do_not_import_it() -> None:
    nouns = ("broker", "config", "discarded", "doctor", "jars", "pending", "topics", "tx")
    program = (
        "import sys, importlib; print([name for name in sys.argv[1:]"
        " if importlib.import_module(name) and 'pyspark' in sys.modules])"
    )
    modules = [f"checkback.commands.{noun}" for noun in nouns]

    assert output_of(program, *modules).strip() == "[]", "the first of them imports Spark"


def test_an_error_is_one_line_for_people_and_an_object_for_programs() -> None:
    wrong = ("config", "show", "--check-max", "-1")

    for_people, for_programs = checkback(*wrong), checkback(*wrong, "--output", "json")

    said = "check_max is -1. It must be at least 0 and at most 60000."
    assert (for_people.returncode, for_people.stdout) == (2, "")
    assert for_people.stderr == f"checkback: {said}\n"
    assert (for_programs.returncode, for_programs.stdout) == (2, "")
    assert json.loads(for_programs.stderr)["error"] == {
        "kind": "ConfigurationError",
        "message": "check_max is -1.",
        "remedy": "It must be at least 0 and at most 60000.",
        "fields": {"key": "check_max", "value": -1},
        "exit_code": 2,
    }


def test_a_wrong_command_line_is_an_object_for_programs_too() -> None:
    ran = checkback("config", "show", "--output", "json", "--no-such-flag")

    assert (ran.returncode, ran.stdout) == (2, "")
    error = json.loads(ran.stderr)["error"]
    assert error["kind"] == "UsageError"
    assert error["remedy"] == "Try `checkback config show --help`."


def test_a_reader_that_has_gone_ends_it_as_sigpipe_would() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ran = subprocess.run(
        [COMMAND, "config", "show"], stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)

    assert (ran.returncode, ran.stderr) == (128 + signal.SIGPIPE, b"")


class TestJars:
    """`checkback jars fetch` when something is wrong."""

    def test_a_second_run_downloads_nothing(self) -> None:
        ensure_jars("kafka")
        ensure_jars("spark")

        ran = checkback("jars", "fetch", "--output", "json", JAVA_HOME="/nowhere")

        assert ran.returncode == 0, ran.stderr  # without Java, Ivy can't have run
        assert {conf: len(jars) for conf, jars in json.loads(ran.stdout)["jars"].items()} == {
            "spark": 4,
            "kafka": 46,
        }

    def test_no_network_is_one_sentence_and_leaves_nothing_half(self, tmp_path: Path) -> None:
        settings = tmp_path / "ivysettings.xml"
        settings.write_text(
            '<ivysettings><settings defaultResolver="mirror"/><resolvers>'
            '<ibiblio name="mirror" m2compatible="true" root="http://127.0.0.1:9/"/>'
            "</resolvers></ivysettings>"
        )

        ran = checkback(
            *("jars", "fetch"),
            CHECKBACK_JARS=str(tmp_path / "jars"),
            CHECKBACK_IVY_SETTINGS=str(settings),
        )

        assert (ran.returncode, ran.stdout) == (3, "")
        assert ran.stderr.startswith("checkback: The jars can't be fetched: no connection.")
        assert ran.stderr.count("\n") == 1
        assert not list((tmp_path / "jars").rglob("*.jar"))
        assert not list((tmp_path / "jars").glob("fetching-*"))

    def test_a_damaged_jar_is_told_and_not_used(self, tmp_path: Path) -> None:
        jars = {"spark": ensure_jars("spark"), "kafka": ensure_jars("kafka")}
        for conf, paths in jars.items():
            (tmp_path / conf).mkdir()
            for path in paths:
                shutil.copy(path, tmp_path / conf)
        damaged = tmp_path / "spark" / jars["spark"][0].name
        with damaged.open("ab") as file:
            file.write(b"x")

        ran = checkback("jars", "fetch", CHECKBACK_JARS=str(tmp_path))

        assert ran.returncode == 3
        assert ran.stderr.startswith(f"checkback: The jar {damaged} has the sha256 ")

    def test_no_java_is_one_sentence(self, tmp_path: Path) -> None:
        ran = checkback("jars", "fetch", CHECKBACK_JARS=str(tmp_path), JAVA_HOME="/nowhere")

        assert ran.returncode == 3
        assert ran.stderr == (
            "checkback: JAVA_HOME is /nowhere, which contains no Java. Install Java 17 or later ("
            "for example the package openjdk-17-jre-headless), or set JAVA_HOME to one.\n"
        )

    def test_a_folder_that_cannot_be_made_is_one_sentence(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()

        ran = checkback("jars", "fetch", CHECKBACK_JARS=str(tmp_path / "file" / "jars"))

        assert ran.returncode == 3
        assert "can't be written" in ran.stderr
        assert ran.stderr.count("\n") == 1
