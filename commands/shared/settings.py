"""The settings as options of a command; deploy/settings.py says which source wins."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import Field, fields
from pathlib import Path
from typing import Any, Final

import click

from checkback.deploy.settings import FAMILIES, LoadedSettings, load_with_sources, setting_text
from checkback.protocol.configuration import Settings, setting_default
from checkback.protocol.errors import ConfigurationError

_FIELDS: Final = {field.name: field for field in fields(Settings)}
OWN_FLAGS: Final = ("bootstrap_servers", "checkpoint", "topic_prefix", "application_id")
"""The settings that every command takes as flags: they say which deployment is meant."""
_EXAMPLES: Final = {
    "set": "check_max=3 or --set kafka.security.protocol=SASL_SSL",
    "kafka": "security.protocol=SASL_SSL",
    "spark": "sql.shuffle.partitions=8",
}


def settings_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--config``, the OWN_FLAGS and ``--set KEY=VALUE``; pass a Settings as ``settings``."""
    option = click.option(
        "--set",
        "set_",
        multiple=True,
        metavar="KEY=VALUE",
        help="Any other setting, as `checkback config show` names it; can be repeated.",
    )
    return _settings_options(
        option(function), OWN_FLAGS, lambda loaded: {"settings": loaded.settings}
    )


def every_setting_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--config`` and one option per setting; pass a LoadedSettings as ``loaded``."""
    return _settings_options(function, _FIELDS, lambda loaded: {"loaded": loaded})


def _settings_options(
    function: Callable[..., Any],
    keys: Collection[str],
    chosen: Callable[[LoadedSettings], dict[str, object]],
) -> Callable[..., Any]:
    @functools.wraps(function)
    def with_settings(config: Path | None, **rest: Any) -> Any:
        flags: dict[str, object] = dict(_pairs("set", rest.pop("set_", ())))
        for key in keys:
            given = rest.pop(key)
            if key in FAMILIES:
                pairs = _pairs(key, given)
                flags |= {f"{key}.{name.removeprefix(f'{key}.')}": value for name, value in pairs}
            elif given is not None:
                flags[key] = given
        return function(**chosen(load_with_sources(config, os.environ, flags)), **rest)

    decorated: Callable[..., Any] = with_settings
    for key in reversed(list(keys)):
        decorated = _option_of(_FIELDS[key])(decorated)
    return click.option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        envvar="CHECKBACK_CONFIG",
        help="TOML file of settings; environment and flags win over it.",
    )(decorated)


def _option_of(field: Field[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    flag, text = f"--{field.name.replace('_', '-')}", field.metadata["text"]
    if field.name in FAMILIES:
        return click.option(
            flag, field.name, multiple=True, metavar="KEY=VALUE", help=f"{text}; can be repeated."
        )
    default = setting_default(field)
    shown = "" if default in (None, "") else f"  [default: {setting_text(default)}]"
    return click.option(flag, field.name, metavar=_metavar(field), help=text + shown)


def _metavar(field: Field[Any]) -> str:
    if "int" in str(field.type):
        return "INTEGER"
    return "BOOLEAN" if field.type == "bool" else "TEXT"


def _pairs(option: str, given: Iterable[str]) -> Iterator[tuple[str, str]]:
    for pair in given:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ConfigurationError(
                # What was given may be a password behind a wrong sign.
                f"--{option} takes KEY=VALUE, and there is no key or no = in one of them.",
                remedy=f"For example --{option} {_EXAMPLES[option]}.",
            )
        yield key, value
