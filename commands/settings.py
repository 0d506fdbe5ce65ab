"""The settings as options of a command; deploy/settings.py says which source wins."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import Field, fields
from pathlib import Path
from typing import Any, Final

import click

from checkback.deploy.settings import FAMILIES, LoadedSettings, load_with_sources, setting_text
from checkback.protocol.configuration import Settings, setting_default
from checkback.protocol.errors import ConfigurationError

_FIELDS: Final = {one.name: one for one in fields(Settings)}


def settings_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--config`` and one option per setting; pass a Settings as ``settings``."""
    return _settings_options(function, "settings", lambda loaded: loaded.settings)


def settings_options_with_sources(function: Callable[..., Any]) -> Callable[..., Any]:
    """Like settings_options, but pass a LoadedSettings as ``loaded``."""
    return _settings_options(function, "loaded", lambda loaded: loaded)


def _settings_options(
    function: Callable[..., Any], name: str, choose: Callable[[LoadedSettings], object]
) -> Callable[..., Any]:
    @functools.wraps(function)
    def with_settings(config: Path | None, **rest: Any) -> Any:
        given = {key: rest.pop(key) for key in _FIELDS}
        loaded = load_with_sources(config, os.environ, _flags(given))
        return function(**{name: choose(loaded)}, **rest)

    decorated: Callable[..., Any] = with_settings
    for one in reversed(_FIELDS.values()):
        decorated = _option_of(one)(decorated)
    return click.option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        envvar="CHECKBACK_CONFIG",
        help="TOML file of settings; environment and flags win over it.",
    )(decorated)


def _option_of(one: Field[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    flag, text = f"--{one.name.replace('_', '-')}", one.metadata["text"]
    if one.name in FAMILIES:
        return click.option(
            flag, one.name, multiple=True, metavar="KEY=VALUE", help=f"{text}; can be repeated."
        )
    default = setting_default(one)
    shown = "" if default in (None, "") else f"  [default: {setting_text(default)}]"
    return click.option(flag, one.name, metavar=_metavar(one), help=text + shown)


def _metavar(one: Field[Any]) -> str:
    if "int" in str(one.type):
        return "INTEGER"
    return "BOOLEAN" if one.type == "bool" else "TEXT"


def _flags(given: Mapping[str, Any]) -> dict[str, object]:
    """Return the flags that were given; click holds None or nothing for the others."""
    found = {
        key: value for key, value in given.items() if key not in FAMILIES and value is not None
    }
    for family in FAMILIES:
        for pair in given[family]:
            key, equals, value = pair.partition("=")
            if not equals or not key:
                raise ConfigurationError(
                    # What was given may be a password behind a wrong sign.
                    f"--{family} takes KEY=VALUE, and there is no key or no = in one of them.",
                    remedy=f"For example --{family} {_EXAMPLES[family]}.",
                )
            found[f"{family}.{key.removeprefix(f'{family}.')}"] = value
    return found


_EXAMPLES: Final = {
    "kafka": "security.protocol=SASL_SSL",
    "spark": "sql.shuffle.partitions=8",
}
