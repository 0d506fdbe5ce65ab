"""The layout: folders at the top are packages under `checkback`, in the wheel too."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.programs import output_of

ROOT = Path(__file__).parents[2]
LINKS = ROOT / "src" / "checkback"
CHECKOUT_ONLY = {"bench", "tools"}
"""Top folders of modules that only a checkout has, not the package."""
WITHOUT_MODULES = (
    "console/static", "console/templates", "console/templates/parts", "deploy/prometheus", "docs",
    "docs/operating",
)  # fmt: skip
"""Folders of files that the wheel has, too."""


@pytest.fixture(scope="module")
def pyproject() -> dict[str, Any]:
    """The project's own description."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def top_folders() -> set[str]:
    return {path.parent.name for path in ROOT.glob("*/__init__.py")} - CHECKOUT_ONLY


def test_every_package_is_named_in_pyproject(pyproject: dict[str, Any]) -> None:
    """An unlisted package would be importable here and missing from the wheel."""
    folders = [path.parent for top in top_folders() for path in (ROOT / top).rglob("__init__.py")]
    names = [str(folder.relative_to(ROOT)) for folder in folders] + list(WITHOUT_MODULES)
    expected = {"checkback." + name.replace("/", "."): name for name in names}
    expected |= {"checkback": "src/checkback"}

    assert set(pyproject["tool"]["setuptools"]["packages"]) == set(expected)
    assert pyproject["tool"]["setuptools"]["package-dir"] == expected


def test_files_without_modules_are_named_by_their_own_folder(pyproject: dict[str, Any]) -> None:
    """Setuptools warns of a pattern that leads into a folder which is no package."""
    patterns = pyproject["tool"]["setuptools"]["package-data"].values()

    assert not any("/" in pattern for one in patterns for pattern in one)


def test_every_folder_of_modules_is_a_package() -> None:
    """Without an __init__ the folder would be missing from the wheel, without an error."""
    for top in top_folders():
        for module in (ROOT / top).rglob("*.py"):
            assert (module.parent / "__init__.py").exists(), module.parent


def test_type_checkers_find_every_package_under_src() -> None:
    if not (LINKS / "protocol").is_symlink():
        pytest.skip("this checkout was made without symbolic links")
    links = {path.name: path.resolve() for path in LINKS.iterdir() if path.is_symlink()}

    assert links == {name: ROOT / name for name in top_folders() | {"docs"}}


def test_requirements_are_locked_with_hashes_and_no_address() -> None:
    for lock in (ROOT / "requirements").glob("*.txt"):
        text = lock.read_text("ascii")
        assert re.search(r"https?:|--index|--find-links|@ ", text) is None, lock.name
        requirements = re.sub(r"\\\n", "", text).splitlines()
        assert requirements
        assert all("==" in one and "--hash=sha256:" in one for one in requirements), lock.name


def test_pytest_finds_the_fixtures_and_loads_nothing_heavy_for_them(
    pyproject: dict[str, Any],
) -> None:
    """If Checkback is installed, every run of pytest imports the plugin, used or not."""
    assert pyproject["project"]["entry-points"]["pytest11"] == {
        "checkback": "checkback.testing.pytest_plugin"
    }
    program = """
import sys
import pytest
before = set(sys.modules)
import checkback.testing.pytest_plugin
loaded = {name.partition(".")[0] for name in sys.modules.keys() - before}
assert loaded <= {"checkback", "uuid", "_uuid", "contextlib"}, loaded
"""
    output_of(program)


def test_an_application_installs_no_pipeline(pyproject: dict[str, Any]) -> None:
    names = [re.split(r"[<>=~\[; ]", one)[0] for one in pyproject["project"]["dependencies"]]

    assert names == ["confluent-kafka"]
