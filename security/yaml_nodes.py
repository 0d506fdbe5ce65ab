"""Reads YAML as nodes that know their lines. A scalar keeps its text: 01234567 stays as it is.

Messages from here quote nothing from the file except names that this package knows: where a blank
is missing, YAML makes a secret a part of a key.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, cast

import yaml

from checkback.security.findings import Findings

_NULL: Final = "tag:yaml.org,2002:null"
_QUOTED: Final = re.compile(r"""\s*(?:'[^\n]*'|"[^\n]*")""")


class _MarkError(yaml.MarkedYAMLError):
    """There is a tag, an anchor or an alias.

    Nothing here knows what a tag like ``!env NAME`` or ``!vault`` stands for, and what follows is
    something else than it says: the name of a variable, taken as the secret. A small text with
    aliases may stand for more values than fit into memory.
    """


class _LoaderWithoutMarks(yaml.SafeLoader):
    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = cast("Any", self).peek_event()
        if getattr(event, "tag", None) is not None or getattr(event, "anchor", None) is not None:
            raise _MarkError(problem_mark=event.start_mark)
        return super().compose_node(parent, index)


def compose(text: str, findings: Findings) -> yaml.Node | None:
    """Return the only document of a text; None if it is empty or can't be taken, which is noted."""
    try:
        return yaml.compose(text, _LoaderWithoutMarks)
    except _MarkError as error:
        says = "There is a YAML tag, anchor or alias."
        remedy = (
            "Write the value alone, in quotes if it begins with !, & or *; a secret by {env: NAME}."
        )
        findings.mistake(_line_of(error), says, remedy)
        return None
    except yaml.MarkedYAMLError as error:
        line = _line_of(error)
        problem = error.problem or "it can't be read"
        if problem.startswith("but ") and error.context:
            problem = f"{error.context}, {problem}"
        said = _QUOTED.sub("", problem)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        said = "there is a character that YAML does not take"
    except (ValueError, OverflowError):
        line, said = 1, "there is an escaped character that does not exist"
    except RecursionError:
        line, said = 1, "it is nested too deep"
    findings.mistake(
        line, f"This is no YAML: {said}.", "Correct it; quote texts that begin with *, { or !."
    )
    return None


def _line_of(error: yaml.MarkedYAMLError) -> int:
    mark = error.problem_mark or error.context_mark
    return 1 if mark is None else mark.line + 1


def line_of(node: yaml.Node) -> int:
    """Return the line where a node begins, from 1."""
    line: int = node.start_mark.line + 1
    return line


def is_null(node: yaml.Node) -> bool:
    """Tell whether a node is YAML's null: nothing, ``~`` or ``null`` without quotes."""
    return bool(node.tag == _NULL)


def text_in(node: yaml.Node, what: str, findings: Findings) -> str | None:
    """Return a scalar's text, empty for null; note a list or mapping as a mistake."""
    if isinstance(node.value, str):
        return "" if is_null(node) else node.value
    findings.mistake(line_of(node), f"{what} is no text.", "Write one word here.")
    return None


def items_in(node: yaml.Node | None, what: str, findings: Findings) -> list[yaml.Node]:
    """Return a list's items, none for null and nothing; note what is no list as a mistake."""
    if node is None or is_null(node):
        return []
    if isinstance(node, yaml.SequenceNode):
        return list(node.value)
    findings.mistake(line_of(node), f"{what} is no list.", "Begin each item with a dash.")
    return []


def entries_in(
    node: yaml.Node, what: str, known: Collection[str], findings: Findings
) -> Mapping[str, yaml.Node]:
    """Return a mapping's values by key; note unknown and repeated keys as mistakes."""
    found: dict[str, yaml.Node] = {}
    if not isinstance(node, yaml.MappingNode):
        findings.mistake(
            line_of(node), f"{what} has no keys.", f"Write key: value. Keys: {', '.join(known)}."
        )
        return found
    for key, value in node.value:
        name = key.value if isinstance(key, yaml.ScalarNode) else ""
        if name not in known:
            findings.mistake(
                line_of(key), f"This is no key of {what}.", f"Keys: {', '.join(known)}."
            )
        elif name in found:
            findings.mistake(line_of(key), f"{name} stands here again.", "Leave one of them out.")
        else:
            found[name] = value
    return found
