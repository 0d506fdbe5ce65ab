"""Command lines made of the options that a verb of the bench declares."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import Field, fields
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import click

from checkback.bench.options import CommonOptions, Verb, is_checkout, with_smoke
from checkback.commands.core import CommandOutput, output_option

Run = Callable[[Verb, CommonOptions, Any, CommandOutput], None]


def verb_command(verb: Verb, run: Run) -> click.Command:
    """Return the command of a verb.

    Args:
        verb: the verb.
        run: called with the verb, the common options, the verb's own options, and the output.
    """
    common = click_options(CommonOptions)
    for one in common:
        if one.name == "body_bytes" and verb.body_bytes is not None:
            one.default = verb.body_bytes

    def call(output: CommandOutput, **given: Any) -> None:
        chosen = options_from(CommonOptions, given)
        own = options_from(verb.options, given)
        run(verb, chosen, with_smoke(own) if chosen.smoke else own, output)

    params = [*common, *click_options(verb.options)]
    return options_command(verb.name, verb.options, params, call)


def options_command(
    name: str, kind: type[Any], params: list[click.Option], call: Callable[..., None]
) -> click.Command:
    """Return a command with ``--output`` whose help is the docstring of its options."""
    text = inspect.getdoc(kind) or ""
    help_text = text.partition("\n\nRaises:")[0]
    made = click.command(name, params=list(params), help=help_text)
    command: click.Command = made(output_option(call))
    return command


def click_options(kind: type[Any]) -> list[click.Option]:
    """Return the options that a dataclass declares; ``--picture`` exists only in a checkout."""
    hints = get_type_hints(kind)
    return [
        _click_option(one, hints[one.name])
        for one in fields(kind)
        if one.name != "picture" or is_checkout()
    ]


def options_from(kind: type[Any], given: Mapping[str, Any]) -> Any:
    """Return an instance of the dataclass, made from the given values that it declares."""
    return kind(**{one.name: given[one.name] for one in fields(kind) if one.name in given})


def _click_option(one: Field[Any], hint: Any) -> click.Option:
    facts = one.metadata
    kinds = [kind for kind in get_args(hint) or (hint,) if kind not in (NoneType, ...)]
    flag = f"--{one.name.replace('_', '-')}"
    if kinds[0] is bool:
        return click.Option([flag], is_flag=True, help=facts["text"])
    is_tuple = isinstance(one.default, tuple)
    return click.Option(
        [flag, one.name],
        type=_click_type(kinds[0], facts, is_folder=one.name.endswith("_dir")),
        default=None if is_tuple else one.default,
        show_default=one.default is not None and not is_tuple,
        multiple=is_tuple,
        metavar=facts["metavar"],
        help=facts["text"],
    )


def _click_type(kind: type, facts: Mapping[str, Any], *, is_folder: bool) -> click.ParamType[Any]:
    if kind is int:
        if facts["least"] is None:
            return click.INT
        return click.IntRange(facts["least"], facts["most"])
    if kind is float:
        return click.FloatRange(facts["least"], facts["most"])
    if kind is Path:
        return click.Path(file_okay=not is_folder, dir_okay=is_folder, path_type=Path)
    return click.STRING
