"""Every document can be reached from README.md, and every link leads somewhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from checkback.commands.shared.app import NOUNS

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
SECTION = re.compile(r"\b(docs/[\w/-]+\.md)#([\w-]+)")
CODE = re.compile(r"```.*?```", re.DOTALL)


def tracked() -> list[Path]:
    """Return the files of the project, without those that users and tools left in the checkout."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [Path(name) for name in listed.stdout.split("\0") if name]


def top_folders() -> set[str]:
    folders = {path.parts[0] for path in tracked() if len(path.parts) > 1}
    return {folder for folder in folders if not folder.startswith(".")}


def documents() -> list[Path]:
    found = [path for path in tracked() if path.suffix == ".md"]
    return sorted(ROOT / path for path in found if path.parts[:2] != ("tests", "data"))


def links(document: Path) -> list[tuple[Path, str]]:
    """Return the targets of a document's relative links: a file, and an anchor in it or ""."""
    text = CODE.sub("", document.read_text("utf-8"))
    return [
        ((document.parent / path).resolve() if path else document, anchor)
        for path, anchor in LINK.findall(text)
    ]


def anchors(document: Path) -> set[str]:
    """Return the anchors that a forge generates for the headings."""
    text = CODE.sub("", document.read_text("utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


def reachable() -> set[Path]:
    seen: set[Path] = set()
    todo = [README]
    while todo:
        document = todo.pop()
        if document in seen or document.suffix != ".md" or not document.is_file():
            continue
        seen.add(document)
        todo += [target for target, _ in links(document)]
    return seen


def table_of_commands() -> str:
    text = (ROOT / "docs" / "commands.md").read_text("utf-8")
    return text.split("\n## All commands\n", 1)[1].split("\n## ", 1)[0]


def test_every_document_is_linked() -> None:
    lost = {str(path.relative_to(ROOT)) for path in set(documents()) - reachable()}

    assert lost == set()


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document: Path) -> None:
    broken = [str(target) for target, _ in links(document) if not target.exists()]
    wrong = [
        f"{target.name}#{anchor}"
        for target, anchor in links(document)
        if anchor and target.suffix == ".md" and anchor not in anchors(target)
    ]

    assert (broken, wrong) == ([], [])


def test_sections_that_programs_name_exist() -> None:
    programs = [ROOT / path for path in tracked() if path.suffix in {".py", ".java", ".c"}]
    named = {
        name for path in programs for name in SECTION.findall(path.read_text("utf-8", "replace"))
    }

    assert named
    assert {
        f"{name}#{anchor}" for name, anchor in named if anchor not in anchors(ROOT / name)
    } == set()


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_tests_and_modules_that_are_named_exist(document: Path) -> None:
    rooms = "|".join(top_folders())
    named = re.findall(rf"`((?:{rooms})/[\w/]+\.(?:py|c))(?:::(\w+))?", document.read_text("utf-8"))
    files = {name: ROOT / name for name, _ in named}
    gone = [name for name, file in files.items() if not file.is_file()]
    missing = [
        f"{name}::{test}"
        for name, test in named
        if test and name not in gone and f"def {test}(" not in files[name].read_text("utf-8")
    ]

    assert (gone, missing) == ([], [])


def test_the_command_table_has_every_noun() -> None:
    nouns = set(re.findall(r"^\| `checkback ([a-z]+)", table_of_commands(), re.MULTILINE))

    assert nouns == set(NOUNS)


def test_the_site_has_every_document() -> None:
    nav = (ROOT / "mkdocs.yml").read_text("utf-8").split("\nnav:\n", 1)[1]
    listed = re.findall(r" (\S+\.md)$", nav, re.MULTILINE)

    assert sorted(ROOT / name for name in listed) == documents()
