"""docs/testing.md's examples run as they stand, as the tests of a service."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "testing.md"
EXAMPLE = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PLUGIN = "checkback.testing.pytest_plugin"


@pytest.mark.parametrize(
    ("chosen", "passed"),
    [
        ("not whoever_reads_the_topic", 8),
        # By day the project's own tests have a broker and a job by these fixtures.
        pytest.param("whoever_reads_the_topic", 1, marks=pytest.mark.nightly),
    ],
)
def test_the_examples_pass(tmp_path: Path, chosen: str, passed: int) -> None:
    examples = dict(EXAMPLE.findall(DOCUMENT.read_text("utf-8")))
    assert len([name for name in examples if name.startswith("test_")]) == 4
    for name, text in examples.items():
        (tmp_path / name).write_text(text, "utf-8")
    found = [one.value for one in entry_points(group="pytest11", name="checkback")]
    # An older installation has no entry point for them.
    named = [] if PLUGIN in found else ["-p", PLUGIN]
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-k",
            chosen,
            "--strict-markers",
            *named,
            "-p",
            "no:cacheprovider",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-8_000:]
    assert f"{passed} passed" in ran.stdout
