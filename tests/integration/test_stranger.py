"""A stranger with README.md alone: from its first command to a message in their own consumer."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from checkback.deploy.broker import free_ports

pytestmark = pytest.mark.nightly  # test_readme_example.py runs README's program by day

README: Final = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
CHECKBACK: Final = Path(sys.executable).with_name("checkback")
START_S: Final = 180
END_S: Final = 120


class Stranger:
    """Does what README.md says, in a folder of their own, on a port that is free here."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._port = str(free_ports(1)[0])

    def blocks(self, language: str) -> list[str]:
        """Return the blocks of one language."""
        text = README.replace("9092", self._port)
        return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)

    def start(self, line: str) -> subprocess.Popen[str]:
        """Start one command line as it stands."""
        words = shlex.split(line, comments=True)
        assert words[0] == "checkback"
        return self._started([str(CHECKBACK), *words[1:]])

    def run(self, line: str) -> str:
        """Run one command line, and return what it printed."""
        return self._ended(self.start(line))

    def run_python(self, code: str) -> str:
        """Run a program, and return what it printed."""
        (self.folder / "program.py").write_text(code, "utf-8")
        return self._ended(self._started([sys.executable, "program.py"]))

    def _started(self, command: list[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, text=True)

    def _ended(self, process: subprocess.Popen[str]) -> str:
        printed, _ = process.communicate(timeout=START_S)
        assert process.returncode == 0, printed
        return printed


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Stranger]:
    one = Stranger(tmp_path)
    yield one
    one.run("checkback broker stop --data-dir broker")


def test_readme_alone_leads_to_a_message_in_a_consumer(stranger: Stranger) -> None:
    (settings,) = stranger.blocks("toml")
    (stranger.folder / "checkback.toml").write_text(settings, "utf-8")
    _install, commands = stranger.blocks("sh")
    *before, run = commands.splitlines()
    order, consumer = stranger.blocks("python")

    for line in before:
        stranger.run(line)
    pipeline = stranger.start(run)
    try:
        sent = stranger.run_python(order)
        received = stranger.run_python(consumer)
        again = stranger.run_python(order)
    finally:
        pipeline.terminate()
        pipeline.communicate(timeout=END_S)

    assert len(sent.strip()) == 32
    assert received.splitlines()[-1] == 'paid order-1 {"order":1,"amount":42}'
    assert len({sent, again}) == 2
    assert pipeline.returncode == 0
