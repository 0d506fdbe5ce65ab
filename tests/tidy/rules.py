"""What a tidy tree means, as functions from the files that git tracks to a list of offenders."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FUNCTION_LINES_MAX: Final = 60
FILE_LINES_MAX: Final = 700
FOLDER_FILES_MAX: Final = 12
FREE_FOLDERS: Final = frozenset({"commands"})
"""Folders of any number of files: commands/ has one file for each noun."""
NOT_ROOMS: Final = frozenset({"tests", "examples", "src", "docs", "requirements"})
"""Top folders whose modules are no production code."""

CHECKOUT_ONLY: Final = ("bench", "tools")
"""Top folders of modules that are no part of the package."""

RIDDLES: Final = re.compile(
    r"\b(anew|how-manieth|so many|of before|behind it|nobody's to|no matter of"
    r"|is told|are told|take[_-]over|lessons?|so long ago|at most so long|rules of the day"
    r"|of anybody's|is left alone|rehears\w+|verdict[_ ]memory)\b",
    re.IGNORECASE,
)
"""Words that a stranger stumbles over, and words that another word replaced."""
SPHINX_ROLE: Final = re.compile(r":[a-z]+:`")
"""Markup of another generator of documents; in ours its colons stay in the text."""
TEXT_ENDINGS: Final = (".py", ".md", ".c", ".java", ".toml", ".yml", ".yaml")


@dataclass(frozen=True)
class SourceFile:
    """A file that git tracks.

    Args:
        name: its path from the top, with slashes.
        text: its content.
    """

    name: str
    text: str

    @property
    def room(self) -> str:
        """The top folder, "" for a file at the top."""
        return self.name.partition("/")[0] if "/" in self.name else ""

    @property
    def is_production(self) -> bool:
        """Whether it is a module of the package."""
        return self.name.endswith(".py") and bool(self.room) and self.room not in NOT_ROOMS

    @property
    def module(self) -> str:
        """Its import name."""
        name = self.name.removesuffix(".py").replace("/", ".")
        return name if self.room in CHECKOUT_ONLY else f"checkback.{name}"

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed module."""
        return ast.parse(self.text)


def tracked_files() -> list[SourceFile]:
    """Return every text file that git tracks, links left out."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    paths = [ROOT / name for name in listed if name.endswith(TEXT_ENDINGS)]
    return [
        SourceFile(path.relative_to(ROOT).as_posix(), path.read_text("utf-8"))
        for path in paths
        if path.is_file() and not path.is_symlink()
    ]


def long_functions(files: list[SourceFile]) -> Iterator[str]:
    """Name the functions of more than FUNCTION_LINES_MAX lines."""
    for file in files:
        if not file.name.endswith(".py"):
            continue
        for node in ast.walk(file.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    yield f"{file.name}:{node.name}"


def long_files(files: list[SourceFile]) -> Iterator[str]:
    """Name the modules of more than FILE_LINES_MAX lines."""
    for file in files:
        if file.name.endswith(".py") and file.text.count("\n") > FILE_LINES_MAX:
            yield file.name


def large_folders(files: list[SourceFile]) -> Iterator[str]:
    """Name the folders of the package with more than FOLDER_FILES_MAX source files."""
    sizes = Counter(
        file.name.rpartition("/")[0]
        for file in files
        if file.room not in NOT_ROOMS | FREE_FOLDERS and file.name.endswith((".py", ".c", ".java"))
    )
    yield from (folder for folder, size in sizes.items() if folder and size > FOLDER_FILES_MAX)


def modules_without_a_test(files: list[SourceFile]) -> Iterator[str]:
    """Name the modules of production code that no test imports from, or names."""
    defined_in = {
        f"{file.module.removesuffix('.__init__')}.{name}": f"{module}.{name}"
        for file in files
        if file.is_production and file.name.endswith("__init__.py")
        for module, name in _imports(file)
    }
    named: set[str] = set()
    for file in files:
        if file.room == "tests" and file.name.endswith(".py"):
            imported = {f"{module}.{name}" for module, name in _imports(file)}
            named |= {defined_in.get(one, one) for one in imported}
            named |= set(re.findall(r"checkback(?:\.\w+)+", file.text))
    for file in files:
        if not file.is_production or file.name.endswith(("__init__.py", "__main__.py")):
            continue
        if not any(one == file.module or one.startswith(f"{file.module}.") for one in named):
            yield file.name


def _imports(file: SourceFile) -> Iterator[tuple[str, str]]:
    """Yield the modules and names of all imports of the form ``from checkback… import …``."""
    for node in ast.walk(file.tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            ("checkback", *CHECKOUT_ONLY)
        ):
            yield from ((str(node.module), one.name) for one in node.names)


def names_of_two_classes(files: list[SourceFile]) -> Iterator[str]:
    """Name the public classes of production code that share their name with another one."""
    named: Counter[str] = Counter()
    for file in files:
        if file.is_production:
            classes = [node.name for node in file.tree.body if isinstance(node, ast.ClassDef)]
            named.update(name for name in classes if not name.startswith("_"))
    yield from (name for name, times in named.items() if times > 1)


def files_with_riddles(files: list[SourceFile]) -> Iterator[str]:
    """Name the files that have a word of RIDDLES."""
    for file in files:
        if not file.name.startswith("tests/tidy/") and RIDDLES.search(file.text):
            yield file.name


def files_with_sphinx_roles(files: list[SourceFile]) -> Iterator[str]:
    """Name the modules whose docstrings have a role of Sphinx; the site is made from Markdown."""
    for file in files:
        if file.is_production and SPHINX_ROLE.search(file.text):
            yield file.name


def version_of_changelog(files: list[SourceFile]) -> str:
    """Return the version that CHANGELOG.md tells first."""
    text = next(file.text for file in files if file.name == "CHANGELOG.md")
    found = re.search(r"^## \[?(\d+\.\d+\.\d+)", text, re.MULTILINE)
    return found[1] if found else ""
