"""The table in docs/configuration.md is what the code says; run as a program, this writes it."""

from __future__ import annotations

import re
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

from checkback.deploy.settings import setting_text
from checkback.protocol.configuration import Settings, setting_default

DOCUMENT = Path(__file__).parents[2] / "docs" / "configuration.md"
TABLE = re.compile(r"(?<=<!-- settings:begin -->\n\n).*(?=\n<!-- settings:end -->)", re.DOTALL)
HEAD = "| key | default | bounds | what it is |\n|---|---|---|---|\n"


def table() -> str:
    return HEAD + "".join(row(one) for one in fields(Settings))


def row(one: Field[Any]) -> str:
    default = setting_default(one)
    shown = "" if default in (None, "", {}) else f"`{setting_text(default)}`"
    text = one.metadata["text"].replace("|", "\\|")
    return f"| `{one.name}` | {shown} | {bounds(one)} | {text} |\n"


def bounds(one: Field[Any]) -> str:
    least, most = one.metadata["least"], one.metadata["most"]
    if least is None:
        return ""
    return f"at least {least}" if most is None else f"{least} to {most}"


def test_the_table_is_made_from_the_settings() -> None:
    found = TABLE.search(DOCUMENT.read_text("utf-8"))

    assert found is not None
    assert found[0] == table(), "Run python -m tests.unit.test_configuration_document"


if __name__ == "__main__":
    text = DOCUMENT.read_text("utf-8")
    DOCUMENT.write_text(TABLE.sub(lambda _: table(), text), "utf-8")
