"""The page for users of RocketMQ names only things that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from checkback import client
from checkback.client.message import Message, MessageExt
from checkback.client.options import ProducerKeywords
from checkback.protocol import errors
from checkback.protocol.configuration import Settings

PAGE = (Path(__file__).parents[3] / "docs" / "coming-from-rocketmq.md").read_text("utf-8")
ROWS = [line.split(" | ") for line in PAGE.splitlines() if line.startswith("| `")]
OURS = sorted({name for row in ROWS for name in re.findall(r"`([A-Za-z_]+)[`(.]", row[1])})


@pytest.mark.parametrize("name", [name for name in OURS if not name.isupper() and name != "with"])
def test_every_name_exists(name: str) -> None:
    classes = (client.TransactionMQProducer, client.TransactionListener, Message, MessageExt)
    owners = (client, errors, *classes)
    assert name in ProducerKeywords.__annotations__ or any(hasattr(one, name) for one in owners)


def test_there_are_names_to_look_at() -> None:
    assert len(OURS) > 30


def test_settings_of_the_broker_have_the_defaults_that_are_told() -> None:
    part = PAGE.partition("## The broker's settings")[2].partition("\n## ")[0]
    stated = re.findall(r"\| `(\w+)` \| ([\w,]+) \|$", part, re.MULTILINE)
    defaults = {name: getattr(Settings(), name) for name, _ in stated}

    assert stated
    assert dict(stated) == {
        name: str(value).lower() if isinstance(value, bool) else f"{value:,}"
        for name, value in defaults.items()
    }


def test_the_pages_program_imports_what_exists() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    imports = [node for node in ast.walk(ast.parse(program)) if isinstance(node, ast.ImportFrom)]
    ours = [node for node in imports if node.module == "checkback.client"]

    assert ours
    assert {name.name for node in ours for name in node.names} <= set(dir(client))
