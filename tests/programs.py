"""Programs that tests run in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

COMMAND: Final = str(Path(sys.executable).with_name("checkback"))
FROM_ZIP: Final = """
import sys
sys.path.insert(0, sys.argv[1])
sys.meta_path[:] = [one for one in sys.meta_path if "editable" not in str(one)]
"""
"""How a program begins that imports Checkback from the zip or the wheel that it is given."""


def run_python(
    program: str, *arguments: str | Path, **options: Any
) -> subprocess.CompletedProcess[str]:
    return _run([sys.executable, "-c", program, *map(str, arguments)], **options)


def output_of(program: str, *arguments: str | Path, **options: Any) -> str:
    """Run a program that has to succeed; return what it prints."""
    ran = run_python(program, *arguments, **options)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def checkback(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does, with these variables more."""
    return _run([COMMAND, *words], env={**os.environ, **environment})


def _run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    given: dict[str, Any] = {"timeout": 180, **options}
    return subprocess.run(command, capture_output=True, text=True, check=False, **given)
