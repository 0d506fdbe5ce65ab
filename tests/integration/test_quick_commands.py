"""Commands that people wait for: they answer at once, beside a running job and before the first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.integration.running import COMMAND, Pipeline, Topics

from checkback.deploy.settings import write_settings

PROCESSOR_S = 1.5
"""Doctor and pending take 0.6 to 0.9 s; a JVM with Spark in it takes ten."""
WAIT_S = 3.0
"""On a machine that is free; on one that is not, as many times more as it takes itself."""
TRIES = 5
"""The quickest counts: what else runs on the machine is not the command's."""
PIECE_OF_WORK = (sys.executable, "-c", "sum(range(10_000_000))")
WITHOUT_SPARK = """
import sys
from checkback.commands import main
sys.argv[0] = "checkback"
try:
    main()
finally:
    assert not {"pyspark", "py4j", "pandas"} & sys.modules.keys()
"""


@dataclass(frozen=True)
class Ran:
    """What a command said, and what it took."""

    data: dict[str, Any]
    wait_s: float
    processor_s: float


def times_of(command: Sequence[str]) -> tuple[str, float, float]:
    """Run a command that has to succeed; return what it says, its time and its processor time."""
    begun_s, before = time.monotonic(), os.times()
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    wait_s, after = time.monotonic() - begun_s, os.times()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout, wait_s, sum(after[2:4]) - sum(before[2:4])


def run(config: Path, *words: str) -> Ran:
    """Run a command that has to succeed; its wait counts as on a machine that is free."""
    _, piece_s, own_s = times_of(PIECE_OF_WORK)
    command = [COMMAND, *words, "--config", str(config), "--output", "json"]
    said, wait_s, processor_s = times_of(command)
    return Ran(json.loads(said), wait_s * min(1.0, own_s / piece_s), processor_s)


@pytest.fixture
def config(bootstrap_servers: str, unique: str, tmp_path: Path) -> Path:
    """The configuration of a deployment whose pipeline never ran."""
    topics = Topics(bootstrap_servers, unique)
    settings = topics.settings(tmp_path / "checkpoint")
    topics.create(settings, [f"{unique}orders"], ["g"])
    path = tmp_path / "checkback.toml"
    write_settings(path, settings)
    return path


@pytest.fixture
def running(bootstrap_servers: str, unique: str, tmp_path: Path) -> Iterator[Path]:
    """The configuration of a pipeline at work, with one pending half."""
    topics = Topics(bootstrap_servers, unique)
    settings = topics.settings(tmp_path / "checkpoint", transaction_timeout_ms=600_000)
    topics.create(settings, [f"{unique}orders"], ["g"])
    topics.send_half(b"waits", f"{unique}orders")
    with Pipeline(settings, tmp_path / "job") as pipeline:
        while pipeline.wait_for("progress")["pending"] != 1:
            pass
        yield pipeline.folder / "checkback.toml"


def test_the_doctor_warns_of_a_pipeline_that_never_ran_and_that_quickly(config: Path) -> None:
    tries = [run(config, "doctor") for _ in range(TRIES)]

    by_check = {one["check"]: one for one in tries[0].data["checks"]}
    assert tries[0].data["failed"] == 0
    assert by_check["checkpoint"]["result"] == "warning"
    assert by_check["checkpoint"]["says"] == "not started yet"
    assert min(one.wait_s for one in tries) < WAIT_S
    assert min(one.processor_s for one in tries) < PROCESSOR_S


def test_beside_a_running_job_commands_answer_at_once_and_without_spark(running: Path) -> None:
    for words in (["doctor"], ["pending"], ["checkpoint", "inspect"]):
        tries = [run(running, *words) for _ in range(TRIES)]
        assert min(one.processor_s for one in tries) < PROCESSOR_S, words
        assert min(one.wait_s for one in tries) < WAIT_S, words

        program = [sys.executable, "-c", WITHOUT_SPARK, *words, "--config", str(running)]
        subprocess.run(program, check=True, capture_output=True, timeout=60)
    assert run(running, "pending").data["pending"][0]["transaction_id"] == "waits"
