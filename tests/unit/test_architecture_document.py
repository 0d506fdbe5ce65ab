"""ARCHITECTURE.md stays short, and its table of folders is the import contract."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
FOLDERS = re.findall(r"^\| `(\w+)/` \|", TEXT, re.MULTILINE)
CONTRACTS: list[dict[str, Any]] = PROJECT["tool"]["importlinter"]["contracts"]
LAYERS = [
    # Neighbours share one entry, "checkback.state | checkback.client".
    [room.strip().removeprefix("checkback.") for room in layer.split("|")]
    # The first contract of layers; the other one is about the parts of the sink.
    for layer in next(one["layers"] for one in CONTRACTS if one["type"] == "layers")
]


def test_its_folders_are_the_layers_of_the_import_contract_in_their_order() -> None:
    assert [folder for layer in LAYERS for folder in layer] == FOLDERS


def test_every_folder_of_production_code_has_a_row() -> None:
    packages = PROJECT["tool"]["setuptools"]["packages"]
    tops = {package.split(".")[1] for package in packages if "." in package}

    assert tops - set(FOLDERS) == {"docs"}, "pages, no code"


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_room_of_a_folder_is_in_its_row(folder: str) -> None:
    row = next(line for line in TEXT.splitlines() if line.startswith(f"| `{folder}/` |"))
    rooms = {path.parent.name for path in (ROOT / folder).glob("*/__init__.py")}

    assert {room for room in rooms if f"`{room}/`" not in row} == set()


def test_the_rooms_of_streaming_stand_in_the_order_of_their_imports() -> None:
    row = next(line for line in TEXT.splitlines() if line.startswith("| `streaming/` |"))
    layers = next(one["layers"] for one in CONTRACTS if "checkback.streaming.job" in str(one))
    ordered = [room.split(".")[-1] for layer in layers for room in layer.split(" | ")]

    assert [room for room in re.findall(r"`(\w+)/` ", row)[1:] if room != "java"] == ordered


def test_the_files_to_begin_with_exist() -> None:
    part = TEXT.partition("### Where to begin")[2].partition("###")[0]
    rooms = re.findall(r"^\d\. `([\w/]+/)`: `(\w+\.py)`", part, re.MULTILINE)

    assert len(rooms) == 6
    assert [name for room, name in rooms if not (ROOT / room / name).exists()] == []


def test_no_module_names_one_above_it_in_a_text() -> None:
    """By its name a module is imported, or started, without an import that a contract sees."""
    level = {folder: number for number, layer in enumerate(LAYERS) for folder in layer}
    text = re.compile(r"""["']checkback\.(\w+)[\w.]*["']""")
    above = [
        f"{path.relative_to(ROOT)}: checkback.{named}"
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for named in text.findall(path.read_text("utf-8"))
        if level.get(named, len(level)) < level[folder]
    ]

    assert above == []
