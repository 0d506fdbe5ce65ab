"""The templates, and how values look in them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from checkback.console.facts import SEARCHED_OFFSETS_MAX
from checkback.console.overview import HEIGHT, WIDTH, number_text
from checkback.metrics.printable import printable
from checkback.operations.transactions.timestamps import time_text
from checkback.protocol.durations import duration_text

FOLDER: Final = Path(__file__).parent / "templates"
STATIC: Final = Path(__file__).parent / "static"
BODY_CHARACTERS_MAX: Final = 4_000
LONG_CHARACTERS: Final = 200
"""A longer property has a row of its own: in a column it would push all others off the screen."""

MARKS: Final[Mapping[str, str]] = {"ok": "✓", "warning": "!", "failed": "✗"}


def body_text(content: bytes | str | None) -> str:
    """Return a body as text; other bytes are escaped, and a long body is cut, with a note."""
    if not content:
        return ""
    if isinstance(content, str):
        content = content.encode("utf-8", "backslashreplace")
    text = content[: 4 * BODY_CHARACTERS_MAX].decode("utf-8", "backslashreplace")
    if len(text) > BODY_CHARACTERS_MAX or len(content) > 4 * BODY_CHARACTERS_MAX:
        return f"{text[:BODY_CHARACTERS_MAX]}… ({len(content)} bytes in all)"
    return text


def short_text(text: str, most: int = 64) -> str:
    """Return a name for a list, cut if it is long: a stranger may choose any name."""
    return text if len(text) <= most else f"{text[:most]}…"


def breakable(name: str) -> Markup:
    """Return a topic's name that a narrow column breaks behind an underscore, if it has to."""
    return escape(printable(name)).replace("_", Markup("_<wbr>"))


def _shown(value: object) -> object:
    """Escape control characters and direction marks: HTML lets them pass."""
    is_plain = isinstance(value, str) and not isinstance(value, Markup)
    return printable(str(value), "\n\t") if is_plain else value


def _environment() -> Environment:
    found = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "time": time_text,
        "duration": duration_text,
        "number": number_text,
        "body": body_text,
        "short": short_text,
        "breakable": breakable,
    }
    found.globals |= {
        "marks": MARKS,
        "long": LONG_CHARACTERS,
        "plot_width": WIDTH,
        "plot_height": HEIGHT,
        "searched_max": SEARCHED_OFFSETS_MAX,
    }
    return found


_TEMPLATES: Final = _environment()


def rendered(name: str, context: Mapping[str, Any]) -> str:
    """Return a template with its values; every value is escaped."""
    return _TEMPLATES.get_template(name).render(**context)
