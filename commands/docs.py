"""``checkback docs``: the documents of this version, which error texts name."""

from __future__ import annotations

import shutil
import sys
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

import click

from checkback.commands.shared.output import KEPT, CommandOutput, output_option
from checkback.protocol.errors import NotFoundError

FOLDERS: Final = ("", "operating")
SUFFIX: Final = ".md"
COLUMNS_MAX: Final = 100
ESCAPE: Final = "\x1b"
"""Begins a terminal's codes, by which a page's headings are bold."""


@click.command()
@click.argument("name", metavar="[PAGE]", default="")
@output_option
def command(name: str, output: CommandOutput) -> None:
    """Show a document, as `recovering` or `bad-days`; without a name, list them."""
    found = pages()
    if not name:
        titles = {name: _title(page) for name, page in sorted(found.items())}
        width = max(map(len, titles))
        lines = [f"{name:<{width}}  {title}" for name, title in titles.items()]
        output.show({"pages": titles}, "\n".join(lines))
        return
    page = found.get(name.removesuffix(SUFFIX).rpartition("/")[2])
    if page is None:
        raise NotFoundError(f"There is no page {name!r}.", remedy="`checkback docs` lists them.")
    text = page.read_text("utf-8")
    shown = _shown(text) if sys.stdout.isatty() else text
    output.show({"page": name, "text": text}, shown, KEPT + ESCAPE, is_folded=False)


def pages() -> dict[str, Traversable]:
    """Return the documents by name."""
    # Not checkback.docs: in a zip a folder without modules is no package.
    top = files("checkback") / "docs"
    found = [page for folder in FOLDERS for page in (top / folder if folder else top).iterdir()]
    return {page.name.removesuffix(SUFFIX): page for page in found if page.name.endswith(SUFFIX)}


def _title(page: Traversable) -> str:
    return page.read_text("utf-8").partition("\n")[0].removeprefix("# ")


def _shown(text: str) -> str:
    """Return a page for a terminal: lines that end where the terminal does."""
    from rich.console import Console
    from rich.markdown import Markdown

    columns = min(shutil.get_terminal_size().columns, COLUMNS_MAX)
    console = Console(width=columns, force_terminal=True)
    with console.capture() as captured:
        console.print(Markdown(text, hyperlinks=False))
    return captured.get().rstrip()
