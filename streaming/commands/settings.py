"""Reading the settings: file, then environment, then flags; the later wins.

A key has one name in all three: ``check_interval_ms`` in the file, ``CHECKBACK_CHECK_INTERVAL_MS``
in the environment, ``--check-interval-ms`` as a flag. ``kafka.*`` and ``spark.*`` are families of
keys: ``kafka.security.protocol`` in the file, ``CHECKBACK_KAFKA_SECURITY_PROTOCOL`` in the
environment, ``--kafka security.protocol=SASL_SSL`` as a flag.
"""

from __future__ import annotations

import difflib
import functools
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal, cast

import click
from pydantic import TypeAdapter, ValidationError

from checkback.protocol.configuration import Settings, setting_default
from checkback.protocol.errors import ConfigurationError

Source = Literal["default", "file", "environment", "flag"]

ENVIRONMENT_PREFIX: Final = "CHECKBACK_"
FAMILIES: Final = ("kafka", "spark")
OTHER_VARIABLES: Final = frozenset(
    {"CHECKBACK_CONFIG", "CHECKBACK_JARS", "CHECKBACK_IVY_SETTINGS", "CHECKBACK_PYTHON"}
)
"""Read elsewhere, and no settings."""

_KUBERNETES: Final = re.compile(r"CHECKBACK_(\w+_)?(SERVICE_(HOST|PORT)|PORT)(_\w+)?")
"""What Kubernetes puts into every pod beside a service whose name begins with checkback."""

_FIELDS: Final = {one.name: one for one in fields(Settings)}
_ADAPTER: Final = TypeAdapter(Settings)


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings, and where each came from.

    Args:
        settings: the settings in effect.
        sources: by key; ``kafka.x`` and ``spark.x`` have their own.
    """

    settings: Settings
    sources: Mapping[str, Source]


def load_settings(
    config_path: Path | None, env: Mapping[str, str], flags: Mapping[str, object]
) -> Settings:
    """Return the settings in effect.

    Args:
        config_path: TOML file, None for none.
        env: the environment.
        flags: by key, ``kafka.x`` and ``spark.x`` for members of families.

    Raises:
        ConfigurationError: a key is unknown, a value is not of its type or out of bounds, or the
            file can't be read.
    """
    return load_with_sources(config_path, env, flags).settings


def load_with_sources(
    config_path: Path | None, env: Mapping[str, str], flags: Mapping[str, object]
) -> LoadedSettings:
    """Return the settings in effect and where each came from.

    Raises:
        ConfigurationError: as for load_settings.
    """
    layers: list[tuple[Source, Mapping[str, object]]] = [
        ("file", read_file(config_path) if config_path else {}),
        ("environment", read_environment(env)),
        ("flag", flags),
    ]
    values: dict[str, object] = {}
    sources: dict[str, Source] = dict.fromkeys(_FIELDS.keys() - set(FAMILIES), "default")
    for source, layer in layers:
        _refuse_unknown(layer, source)
        values |= layer
        sources |= dict.fromkeys(layer, source)
    return LoadedSettings(_validated(values), sources)


def read_file(path: Path) -> dict[str, object]:
    """Return what a TOML file sets, members of families under their dotted name.

    Raises:
        ConfigurationError: it is missing, unreadable or no TOML.
    """
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(
            f"The configuration file {path} can't be read: {why}.", remedy="Check --config."
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is no TOML: {error}.", remedy="Correct it.") from error
    found: dict[str, object] = {}
    for key, value in document.items():
        if key in FAMILIES and isinstance(value, dict):
            found |= dict(_flattened(f"{key}.", value))
        else:
            found[key] = value
    return found


def read_environment(env: Mapping[str, str]) -> dict[str, object]:
    """Return what the environment sets; variables without the prefix are not looked at."""
    found: dict[str, object] = {}
    for variable, value in env.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in OTHER_VARIABLES:
            continue
        key = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
        family, _, member = key.partition("_")
        if family in FAMILIES and member:
            found[f"{family}.{member.replace('_', '.')}"] = value
        elif key in _FIELDS or not _KUBERNETES.fullmatch(variable):
            found[key] = value
    return found


def settings_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--config`` and one option per setting; pass a Settings as ``settings``."""
    return _settings_options(function, "settings", lambda loaded: loaded.settings)


def settings_options_with_sources(function: Callable[..., Any]) -> Callable[..., Any]:
    """Do as settings_options, but pass a LoadedSettings as ``loaded``."""
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
        help="TOML file of settings; the environment and the flags win over it.",
    )(decorated)


def _option_of(one: Field[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    flag, text = f"--{one.name.replace('_', '-')}", one.metadata["text"]
    if one.name in FAMILIES:
        return click.option(
            flag, one.name, multiple=True, metavar="KEY=VALUE", help=f"{text}; can be repeated."
        )
    default = setting_default(one)
    shown = "" if default in (None, "") else f"  [default: {_written(default)}]"
    return click.option(flag, one.name, metavar=_metavar(one), help=text + shown)


def _metavar(one: Field[Any]) -> str:
    if "int" in str(one.type):
        return "INTEGER"
    return "BOOLEAN" if one.type == "bool" else "TEXT"


def _written(default: object) -> str:
    return str(default).lower() if isinstance(default, bool) else str(default)


def _flags(given: Mapping[str, Any]) -> dict[str, object]:
    """Return the flags that were given; click has None or nothing for the others."""
    found = {
        key: value for key, value in given.items() if key not in FAMILIES and value is not None
    }
    for family in FAMILIES:
        for pair in given[family]:
            key, equals, value = pair.partition("=")
            if not equals or not key:
                raise ConfigurationError(
                    f"--{family} takes KEY=VALUE, not {key!r}.",
                    remedy=f"For example --{family} {_EXAMPLES[family]}.",
                )
            found[f"{family}.{key.removeprefix(f'{family}.')}"] = value
    return found


_EXAMPLES: Final = {
    "kafka": "security.protocol=SASL_SSL",
    "spark": "sql.shuffle.partitions=8",
}


def _flattened(prefix: str, table: Mapping[str, object]) -> Iterable[tuple[str, object]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flattened(f"{prefix}{key}.", cast("Mapping[str, object]", value))
        else:
            yield prefix + key, value


def _refuse_unknown(layer: Mapping[str, object], source: Source) -> None:
    for key in layer:
        family, _, member = key.partition(".")
        if key in _FIELDS and key not in FAMILIES:
            continue
        if family in FAMILIES and member:
            continue
        nearest = difflib.get_close_matches(key, _FIELDS, n=1, cutoff=0.0)[0]
        raise ConfigurationError(
            f"There is no setting {key!r} (from the {source}).",
            remedy=f"The nearest one is {nearest!r}; `checkback config show` lists them all.",
            key=key,
            source=source,
        )


def _validated(values: Mapping[str, object]) -> Settings:
    arguments: dict[str, object] = {key: values[key] for key in values if "." not in key}
    for family in FAMILIES:
        members = {key: value for key, value in values.items() if key.startswith(f"{family}.")}
        arguments[family] = {
            key.partition(".")[2]: _written(value) for key, value in members.items()
        }
    try:
        return _ADAPTER.validate_python(arguments)
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        raise ConfigurationError(
            f"{key} is {first['input']!r}.",
            remedy=f"{first['msg'].rstrip('.')}.",
            key=key,
        ) from error
