"""A user gets a sentence about a library's error; all other errors are defects."""

from __future__ import annotations

import errno
import json
import re
import subprocess
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import click
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from kafka.errors import KafkaConnectionError
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pyspark.errors import PySparkRuntimeError
from tests.programs import run_python

from checkback.commands.shared.app import execute
from checkback.commands.shared.errors import EXIT_DEFECT, asks_for_json, explained
from checkback.commands.shared.output import CommandOutput, output_option
from checkback.protocol.errors import (
    BrokerError,
    ConfigurationError,
    OperationalError,
    PrerequisiteError,
)

ROOT = Path(__file__).parents[2]


def test_an_unknown_kafka_setting_is_the_callers_fault() -> None:
    with pytest.raises(KafkaException) as failure:
        AdminClient({"bootstrap.servers": "127.0.0.1:1", "group.idd": "x"})

    found = explained(failure.value)
    assert isinstance(found, ConfigurationError)
    assert 'property: "group.idd"' in found.message


@pytest.mark.parametrize(
    ("raised", "kind", "says"),
    [
        (KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)), BrokerError, "refused"),
        (KafkaConnectionError(), BrokerError, "KafkaConnectionError"),
        (PySparkRuntimeError("No.\nA trace"), OperationalError, "Spark failed: No. Check master"),
        (FileNotFoundError(errno.ENOENT, "No such file", "/a"), PrerequisiteError, "/a: No such"),
        (OSError(errno.ENOSPC, "full"), PrerequisiteError, "No space"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), OperationalError, "connection"),
        (TimeoutError(), OperationalError, "No answer came in time"),
        (TimeoutError(errno.ETIMEDOUT, "timed out"), OperationalError, "timed out"),
        (ModuleNotFoundError("no", name="pyspark.sql"), PrerequisiteError, "pyspark, which"),
    ],
)
def test_the_user_reads_what_to_do(raised: Exception, kind: type[Exception], says: str) -> None:
    found = explained(raised)

    assert isinstance(found, kind)
    assert says in str(found)
    assert found.remedy


@pytest.mark.parametrize("extra", ["web", "spark"])
def test_a_package_that_is_missing_is_said_with_the_extra_that_brings_it(extra: str) -> None:
    """Whoever installed one extra meets the commands of the other: that is no defect of ours."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = [Requirement(one).name for one in project["optional-dependencies"][extra]]
    brought = {*map(canonicalize_name, named)}
    explained_by = dict.fromkeys(brought, 0)
    for module, distributions in packages_distributions().items():
        found = explained(ModuleNotFoundError("no", name=f"{module}.part"))
        for one in brought & {*map(canonicalize_name, distributions)}:
            if found is not None:
                assert extra in re.findall(r"checkback\[(\w+)\]", found.remedy), module
                explained_by[one] += 1

    assert all(explained_by.values()), explained_by


def test_the_pipeline_without_the_console_says_what_to_install(tmp_path: Path) -> None:
    """As after `pip install checkback[spark]`."""
    without = (
        "import sys\n"
        "for name in ('fastapi', 'starlette', 'uvicorn', 'jinja2'):\n"
        "    sys.modules[name] = None\n"
        "from checkback.commands import main\n"
        "sys.argv = ['checkback', 'console']\n"
        "main()"
    )
    ran = run_python(without, cwd=tmp_path)

    assert (ran.returncode, ran.stdout) == (3, "")
    assert "Traceback" not in ran.stderr
    assert "pip install 'checkback[web]'" in ran.stderr


@pytest.mark.parametrize("raised", [KeyError("x"), ModuleNotFoundError("no", name="checkback.odd")])
def test_a_defect_stays_one(raised: Exception) -> None:
    assert explained(raised) is None


def test_a_defect_is_json_where_json_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    @click.command()
    @output_option
    def broken(output: CommandOutput) -> None:
        raise KeyError("odd")

    assert execute(broken, ["--output", "json"]) == EXIT_DEFECT
    told = capsys.readouterr().err
    assert '"kind": "Defect"' in told
    assert '"exit_code": 70' in told


def run_without_click(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line as after `pip install checkback`."""
    without = (
        "import sys; sys.modules['click'] = None\n"
        "from checkback.commands import main\n"
        f"sys.argv = ['checkback', *{arguments!r}]\n"
        "main()"
    )
    return run_python(without)


@pytest.mark.parametrize(("argument", "code"), [("--version", 0), ("doctor", 3)])
def test_the_client_alone_says_what_is_missing(argument: str, code: int) -> None:
    ran = run_without_click(argument)

    assert ran.returncode == code, ran.stderr
    assert "Traceback" not in ran.stderr
    assert ran.stdout.startswith("checkback 0.") if code == 0 else "checkback[spark]" in ran.stderr


def test_the_client_alone_says_it_as_json_where_json_is_asked() -> None:
    ran = run_without_click("doctor", "--output", "json")

    [line] = ran.stderr.splitlines()
    error = json.loads(line)["error"]
    assert ran.returncode == error["exit_code"] == 3
    assert error["kind"] == "PrerequisiteError"
    assert error["fields"] == {"package": "click"}
    assert "checkback[spark]" in error["remedy"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["doctor", "--output", "json"], True),
        (["--output=json"], True),
        (["--output", "text", "json"], False),
        (["json"], False),
    ],
)
def test_the_raw_arguments_say_whether_json_is_asked(arguments: list[str], expected: bool) -> None:
    assert asks_for_json(arguments) is expected
