"""Mutation testing: ``make mutants`` changes the code bit by bit, and the tests must notice.

mutmut works in a copy of the tree, since it writes beside what it changes; pyproject.toml says what
it changes and which tests have to notice. A change that survives is printed, unless
``equivalent.toml`` says why it makes no difference. ``make mutants NAMES=checkback.sinks.*`` takes
some of the changes.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import compress
from pathlib import Path
from typing import Final, NamedTuple

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
COPY: Final = ROOT / "build" / "mutants"
SETTLED: Final = ("killed", "timeout", "not checked")
"""What mutmut says of a change that a test noticed, or that was not asked for."""
AT_IMPORT: Final = "checkback.state.transitions."
"""What is computed when its module is imported: before mutmut chooses a change, in a fork."""
OF_HISTORIES: Final = (
    "tests/property/test_histories.py::test_engine_and_model_agree_on_every_history"
)
TESTS_AT_IMPORT: Final = (
    "tests/unit/state/test_transitions.py", f"{OF_HISTORIES}[2]", f"{OF_HISTORIES}[3]",
)  # fmt: skip


class Change(NamedTuple):
    """A change: in which function, and its lines before (-) and after (+) it."""

    function: str
    lines: list[str]

    @property
    def short(self) -> str:
        """The function, and what its line has become; of lines that are gone, what they were."""
        after = [line[2:] for line in self.lines if line.startswith("+")]
        return f"{self.function}: {' '.join(after or self.lines)}"


def main() -> int:
    """Try the changes; exit code 1 where one survived that is not known to make no difference."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="of the changes, with * (default: all)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args()
    _copy_tree()
    began_s = time.monotonic()
    mutmut("run", "--max-children", str(chosen.processes), *chosen.names)
    outcomes = list(_outcomes())
    left = [name for name, outcome in outcomes if outcome not in SETTLED]
    with ThreadPoolExecutor(chosen.processes) as pool:
        noticed = {*compress(left, pool.map(_is_noticed_at_import, left))}
    survived = {name: _change(name) for name in left if name not in noticed}
    known = equivalents((HERE / "equivalent.toml").read_text("utf-8"))
    unknown = {name: change for name, change in survived.items() if change.short not in known}
    stale = set() if chosen.names else known - {change.short for change in survived.values()}
    for name, change in unknown.items():
        print("", f"survived: {name}", change.short, *change.lines, sep="\n")
    for short in sorted(stale):
        print("", "noticed or gone: equivalent.toml need not have it any more", short, sep="\n")
    told = Counter(outcome for _, outcome in outcomes).most_common()
    print(*(f"{number} {outcome}," for outcome, number in told), end=" ")
    print(f"{len(unknown)} to look at, {time.monotonic() - began_s:.0f} s")
    return 1 if unknown or stale else 0


def _copy_tree() -> None:
    """Copy what git knows, and the compiled part; links stay links."""
    shutil.rmtree(COPY, ignore_errors=True)
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    built = [str(path.relative_to(ROOT)) for path in ROOT.glob("sinks/native/*.so")]
    for name in [*filter(None, listed.split("\0")), *built]:
        (COPY / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, COPY / name, follow_symlinks=False)


def mutmut(*arguments: str, output: int | None = None) -> str:
    """Start mutmut in the copy; return what it prints where that goes to a pipe."""
    program = Path(sys.executable).with_name("mutmut")
    started = subprocess.run([program, *arguments], cwd=COPY, stdout=output, text=True, check=True)
    return started.stdout or ""


def _outcomes() -> Iterator[tuple[str, str]]:
    for line in mutmut("results", "--all", "true", output=subprocess.PIPE).splitlines():
        name, _, outcome = line.strip().partition(": ")
        yield name, outcome


def _is_noticed_at_import(name: str) -> bool:
    if not name.startswith(AT_IMPORT):
        return False
    environment = os.environ | {"MUTANT_UNDER_TEST": name, "PYTHONPATH": "src:."}
    command = [sys.executable, "-m", "pytest", "-qx", *TESTS_AT_IMPORT]
    place = COPY / "mutants"
    tested = subprocess.run(command, cwd=place, env=environment, capture_output=True, check=False)
    return tested.returncode != 0


def _change(name: str) -> Change:
    function = re.sub(r"\.x(_|ǁ(\w+)ǁ)", lambda of: f".{of[2] + '.' if of[2] else ''}", name)
    shown = mutmut("show", name, output=subprocess.PIPE).splitlines()
    lines = [f"{one[0]} {one[1:].strip()}" for one in shown if re.match(r"([-+])(?!\1\1 )", one)]
    return Change(function.partition("__mutmut_")[0], lines)


def equivalents(text: str) -> set[str]:
    """Return the changes that make no difference, each as `Change.short` has it."""
    groups = tomllib.loads(text)["equivalent"]
    return {line for group in groups for line in group["changes"].splitlines()}


if __name__ == "__main__":
    sys.exit(main())
