"""Who looks for a transaction or a batch in JSON log lines finds every line about it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[3]
FOLDERS: Final = ("client", "checkpoints", "operations", "sinks", "streaming")
TOLD_BY: Final = {"transaction_id": {"transaction_id"}, "batch_id": {"batch_id", "planned"}}
"""Facts, and names of variables and attributes whose value a line with that fact tells. The lines
of a sink process have batch and state partition of their context."""


def log_calls(source: str) -> Iterator[ast.Call]:
    """The calls that write a log line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("_log."):
            yield node


def names_in(call: ast.Call) -> set[str]:
    """Names of variables and attributes among a line's arguments."""
    nodes = [node for argument in call.args for node in ast.walk(argument)]
    return {node.id for node in nodes if isinstance(node, ast.Name)} | {
        node.attr for node in nodes if isinstance(node, ast.Attribute)
    }


def lacking(source: str) -> list[str]:
    """Lines that tell a fact in their text only."""
    found = []
    for call in log_calls(source):
        for fact, names in TOLD_BY.items():
            if names & names_in(call) and f"extra=facts({fact}=" not in ast.unparse(call):
                found.append(f"line {call.lineno} lacks {fact}")
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_line_about_a_transaction_or_a_batch_has_it_as_a_fact(folder: str) -> None:
    found = {
        str(path.relative_to(ROOT)): lines
        for path in (ROOT / folder).rglob("*.py")
        if (lines := lacking(path.read_text("utf-8")))
    }

    assert found == {}


def test_a_line_that_tells_it_in_its_text_only_is_found() -> None:
    told = "_log.info('%s is late', half.transaction_id)"

    assert lacking(told) == ["line 1 lacks transaction_id"]
    assert lacking(told[:-1] + ", extra=facts(transaction_id=half.transaction_id))") == []
