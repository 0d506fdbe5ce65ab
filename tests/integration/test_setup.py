"""`make setup` on machines that lack something: one sentence that says what to do.

It runs ``tools/prepare.py`` by the system's Python, in a checkout that has nothing yet.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly  # each copies the checkout and starts make

ROOT = Path(__file__).parents[2]
NEEDED = (
    "Makefile",
    "pyproject.toml",
    "requirements",
    "src",
    "deploy",
    "protocol",
    "sinks",
    "setup.py",
    "tools",
)
PROGRAMS = ("sh", "make", "touch", "dirname", "env")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout in which nothing is set up."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in NEEDED:
        if (ROOT / name).is_dir():
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignore)
        else:
            shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A PATH with make, a shell and this Python, and without Java."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in PROGRAMS:
        found = shutil.which(name)
        assert found is not None, name
        (folder / name).symlink_to(found)
    (folder / "python3").symlink_to(Path(sys.executable).resolve())
    return folder


def script(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def make_setup(checkout: Path, path: Path, **environment: str) -> str:
    """Run it, check that it failed and set nothing up, and return what it said before make did."""
    # Not this run's own: a mirror or an index that the machine names would answer.
    # Nor the make that runs these tests: its child would speak of itself as make[1].
    left = ("PIP_", "JAVA", "MAKE", "MFLAGS")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(left)}
    ran = subprocess.run(
        ["make", "setup"],
        cwd=checkout,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**kept, "PATH": str(path), **environment},
    )
    assert ran.returncode != 0
    assert not (checkout / ".venv" / ".ready").exists()
    said, make = ran.stderr.splitlines()
    assert make.startswith("make: ***")
    return said


def test_no_python_that_is_new_enough(checkout: Path, programs: Path) -> None:
    script(programs / "python3", "exit 1")

    assert make_setup(checkout, programs) == (
        "checkback: No Python 3.11 or later was found."
        " Install one, or name it: make PYTHON=/path/to/python3"
    )


def test_no_java(checkout: Path, programs: Path) -> None:
    said = make_setup(checkout, programs)

    assert said.startswith("checkback: Java is not installed. Install Java 17 or later")
    assert not (checkout / ".venv").exists()  # the user hears of it before the download


def test_java_that_is_too_old(checkout: Path, programs: Path) -> None:
    script(programs / "java", "echo 'openjdk version \"11.0.2\" 2019-01-15' >&2")

    said = make_setup(checkout, programs)

    assert "is version 11, too old for Spark and Kafka. Install Java 17 or later" in said


def test_no_network(checkout: Path, programs: Path) -> None:
    script(programs / "java", "echo 'openjdk version \"17.0.2\" 2022-01-18' >&2")

    said = make_setup(
        checkout,
        programs,
        PIP_INDEX_URL="http://127.0.0.1:9/simple",
        PIP_CONFIG_FILE=os.devnull,
        PIP_RETRIES="0",
        PIP_NO_CACHE_DIR="1",
    )

    assert said == (
        "checkback: The Python packages can't be fetched."
        " Check the network, or set PIP_INDEX_URL to your mirror."
    )


@pytest.mark.parametrize(
    ("pip_says", "said"),
    [
        (
            "OSError: [Errno 28] No space left on device",
            "No space is left on the disk. Free some space for .venv, or set TMPDIR",
        ),
        (
            "Collecting numpy\nERROR: numpy needs a newer pip\nnotice: pip has a new version",
            "ERROR: numpy needs a newer pip. pip's whole output is in",
        ),
    ],
)
def test_what_pip_fails_for(pip_says: str, said: str, checkout: Path, programs: Path) -> None:
    script(programs / "java", "echo 'openjdk version \"17.0.2\" 2022-01-18' >&2")
    pip = checkout / ".venv" / "bin" / "pip"
    pip.parent.mkdir(parents=True)
    script(pip, f"echo '{pip_says}' >&2; exit 1")
    log = checkout / ".venv" / "pip.log"

    assert make_setup(checkout, programs).startswith(f"checkback: {said}")

    assert not log.exists() or log.read_text("utf-8").strip() == pip_says
