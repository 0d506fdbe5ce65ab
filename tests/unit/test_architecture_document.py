"""ARCHITECTURE.md stays short, and its table of folders is the import contract."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
FOLDERS = re.findall(r"^\| `(\w+)/` \|", TEXT, re.MULTILINE)
LINES_MAX = 200


def test_it_has_four_pages() -> None:
    assert len(TEXT.splitlines()) <= LINES_MAX


def test_its_parts_stand_in_the_order_that_was_promised() -> None:
    headings = re.findall(r"^## (.+)$", TEXT, re.MULTILINE)

    assert headings == ["Problem", "Overview", "Invariants", "Guarantees", "References"]


def test_its_folders_are_the_layers_of_the_import_contract_in_their_order() -> None:
    contracts = PROJECT["tool"]["importlinter"]["contracts"]
    # The first contract of layers; the other one is about the parts of the sink.
    layers = next(one["layers"] for one in contracts if one["type"] == "layers")
    # Neighbours share one entry, "checkback.state | checkback.client".
    rooms = [room.strip().removeprefix("checkback.") for one in layers for room in one.split("|")]

    assert rooms == FOLDERS


def test_every_folder_of_production_code_has_a_row() -> None:
    packages = PROJECT["tool"]["setuptools"]["packages"]
    tops = {package.split(".")[1] for package in packages if "." in package}

    assert tops - set(FOLDERS) == {"docs"}, "pages, no code"


def test_the_tour_goes_through_every_folder_from_the_bottom() -> None:
    tour = (ROOT / "CONTRIBUTING.md").read_text("utf-8").split("\n## A tour of the folders\n", 1)[1]
    named = re.findall(r"^\d+\. `(\w+)/`:", tour.split("\n## ", 1)[0], re.MULTILINE)

    assert named == FOLDERS[::-1]


def test_every_row_says_what_a_folder_may_not_know() -> None:
    rows = re.findall(r"^\| `\w+/` \| (.+) \| (.*) \|$", TEXT, re.MULTILINE)

    assert len(rows) == len(FOLDERS)
    assert all(inside.strip() and unknown.strip() for inside, unknown in rows)
