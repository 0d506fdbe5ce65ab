"""The tree is tidy, but for exceptions that can only become fewer.

An offender that is not in ``exceptions.toml`` fails; so does an exception without an offender.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.tidy import rules
from tests.tidy.rules import SourceFile

import checkback

EXCEPTIONS = tomllib.loads(Path(__file__).with_name("exceptions.toml").read_text("utf-8"))
RULES: list[Callable[[list[SourceFile]], Iterator[str]]] = [
    rules.long_functions,
    rules.long_files,
    rules.large_folders,
    rules.modules_without_a_test,
    rules.files_with_riddles,
    rules.names_of_two_classes,
    rules.files_with_sphinx_roles,
]


@pytest.fixture(scope="module")
def files() -> list[SourceFile]:
    return rules.tracked_files()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_tree_is_tidy(
    rule: Callable[[list[SourceFile]], Iterator[str]], files: list[SourceFile]
) -> None:
    found, excepted = set(rule(files)), set(EXCEPTIONS[rule.__name__])

    assert sorted(found - excepted) == [], rule.__doc__
    assert sorted(excepted - found) == [], "exceptions that nobody needs any more: take them out"


def test_the_changelog_tells_this_version(files: list[SourceFile]) -> None:
    assert rules.version_of_changelog(files) == checkback.__version__


def test_the_rules_find_what_they_are_for() -> None:
    long = "def long():\n" + "    pass\n" * 61
    file = SourceFile(
        "state/odd.py", f'"""A page made anew, see :class:`Page`."""\n{long}' + "\n" * 700
    )

    assert [list(rule([file])) for rule in RULES] == [
        ["state/odd.py:long"],
        ["state/odd.py"],
        [],
        ["state/odd.py"],
        ["state/odd.py"],
        [],
        ["state/odd.py"],
    ]


def test_a_large_folder_is_found() -> None:
    large = [SourceFile(f"state/page/{name}.py", "") for name in "abcdefghijklm"]
    free = [SourceFile(file.name.replace("state/page", "commands"), "") for file in large]

    assert list(rules.large_folders([*large, *free])) == ["state/page"]
    assert not list(rules.large_folders(large[1:]))


def test_a_name_of_two_classes_is_found() -> None:
    text = "class Page: ...\nclass _Own: ...\n"
    files = [SourceFile(name, text) for name in ("state/a.py", "sinks/b.py", "tests/c.py")]

    assert list(rules.names_of_two_classes(files)) == ["Page"]
    assert not list(rules.names_of_two_classes(files[1:]))


def test_a_module_that_a_test_imports_is_named() -> None:
    module = SourceFile("state/odd.py", '"""Odd."""\n')
    for line in ("from checkback.state.odd import x", "from checkback.state import odd"):
        assert not list(rules.modules_without_a_test([module, SourceFile("tests/a.py", line)]))


def test_a_module_is_named_by_what_its_package_offers_of_it() -> None:
    module = SourceFile("state/odd.py", '"""Odd."""\n')
    package = SourceFile("state/__init__.py", "from checkback.state.odd import x\n")
    for line, without in (("from checkback.state import x", []), ("x = 1", ["state/odd.py"])):
        files = [module, package, SourceFile("tests/a.py", line)]
        assert list(rules.modules_without_a_test(files)) == without
