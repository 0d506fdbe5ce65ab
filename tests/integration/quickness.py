"""How long commands take, on whichever machine: they have to answer at once, without Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.running import COMMAND

IMPORTS = (sys.executable, "-c", "import confluent_kafka, kafka, numpy")
PROCESSOR_TIMES = 5
"""As often as what only imports these takes a command the processor. Doctor and pending take two to
three times as long, 0.6 to 0.9 s on a machine that is free; a JVM with Spark in it takes ten
seconds, which is thirty times as long."""
WAIT_S = 3.0
"""On a machine that is free; on one that is not, as many times more as it takes itself."""
TRIES = 5
"""One quick try is enough: what else runs on the machine is not the command's."""
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
    processor_times: float


def times_of(command: Sequence[str]) -> tuple[str, float, float]:
    """Run a command that has to succeed; return what it says, its time and its processor time."""
    begun_s, before = time.monotonic(), os.times()
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    wait_s, after = time.monotonic() - begun_s, os.times()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout, wait_s, sum(after[2:4]) - sum(before[2:4])


def run(config: Path, *words: str) -> Ran:
    """Run a command that has to succeed; its wait counts as on a machine that is free.

    Where others use the processor, too, the same work takes more of its time, so that counts in
    times of what other work takes just before.
    """
    _, piece_s, own_s = times_of(PIECE_OF_WORK)
    _, _, imports_s = times_of(IMPORTS)
    command = [COMMAND, *words, "--config", str(config), "--output", "json"]
    said, wait_s, processor_s = times_of(command)
    wait_s *= min(1.0, own_s / piece_s)
    return Ran(json.loads(said), wait_s, processor_s, processor_s / imports_s)


def quick_run(config: Path, *words: str) -> Ran:
    """Return the first try that is quick."""
    slow = []
    for _ in range(TRIES):
        ran = run(config, *words)
        if ran.wait_s < WAIT_S and ran.processor_times < PROCESSOR_TIMES:
            return ran
        of_processor = f"{ran.processor_s:.1f} of a processor, {ran.processor_times:.1f} imports"
        slow.append(f"{ran.wait_s:.1f} s, {of_processor}")
    raise AssertionError(f"{words} took {'; '.join(slow)}")


def run_without_spark(config: Path, *words: str) -> None:
    """Run a command that has to succeed, and to import nothing of Spark."""
    program = [sys.executable, "-c", WITHOUT_SPARK, *words, "--config", str(config)]
    subprocess.run(program, check=True, capture_output=True, timeout=60)
