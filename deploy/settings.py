"""Reads settings from files and the environment, and writes them for other processes.

The environment wins over the file, and flags win over both. A key has one name in all three:
``check_interval_ms`` in the file, ``CHECKBACK_CHECK_INTERVAL_MS`` in the environment,
``--check-interval-ms`` as a flag of ``checkback run``. ``kafka.*`` and ``spark.*`` are families of
keys: ``kafka.security.protocol`` in the file, ``CHECKBACK_KAFKA_SECURITY_PROTOCOL`` in the
environment, ``--kafka security.protocol=SASL_SSL`` as a flag. Other commands take
``--set KEY=VALUE`` with the key of the file.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, Literal, cast

from pydantic import TypeAdapter, ValidationError

from checkback.protocol.configuration import Settings, mask, setting_default
from checkback.protocol.errors import ConfigurationError

Source = Literal["default", "file", "environment", "flag"]

ENVIRONMENT_PREFIX: Final = "CHECKBACK_"
FAMILIES: Final = ("kafka", "spark")
OTHER_VARIABLES: Final = frozenset(
    {
        "CHECKBACK_BROKER_VERSION",
        "CHECKBACK_COMMIT",
        "CHECKBACK_CONFIG",
        "CHECKBACK_CONSOLE_PROXY_SECRET",
        "CHECKBACK_CONSOLE_TOKENS",
        "CHECKBACK_IVY_SETTINGS",
        "CHECKBACK_JARS",
        "CHECKBACK_METRICS_URL",
        "CHECKBACK_PURE",
        "CHECKBACK_PYTHON",
    }
)
"""Variables that are not settings; other modules read them."""

_KUBERNETES: Final = re.compile(
    r"CHECKBACK_(\w+_)?(SERVICE_(HOST=|PORT\w*=)|PORT=\w+://|PORT_\d+_\w+=).*"
)
"""Variables that Kubernetes sets in every pod for a service with a name that begins with checkback:
Strimzi's service checkback-kafka-bootstrap has CHECKBACK_KAFKA_BOOTSTRAP_SERVICE_HOST."""

_FIELDS: Final = {one.name: one for one in fields(Settings)}
_ADAPTER: Final = TypeAdapter(Settings)


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings and the source of each."""

    settings: Settings
    sources: Mapping[str, Source]


def load_settings(
    config_path: Path | None, env: Mapping[str, str], flags: Mapping[str, object]
) -> Settings:
    """Return the settings in effect.

    Raises:
        ConfigurationError: a key is unknown, a value has the wrong type or is out of bounds, or the
            file can't be read.
    """
    return load_with_sources(config_path, env, flags).settings


def load_with_sources(
    config_path: Path | None, env: Mapping[str, str], flags: Mapping[str, object]
) -> LoadedSettings:
    """Return the settings in effect and the source of each."""
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
    """Return the settings in a TOML file; members of families have dotted names.

    Raises:
        ConfigurationError: the file is missing, unreadable or not TOML.
    """
    try:
        document = _without_tables(tomllib.loads(path.read_text("utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(
            f"The configuration file {path} can't be read: {why}.", remedy="Check --config."
        ) from error
    except (ValueError, RecursionError) as error:  # also for a number of thousands of digits
        raise ConfigurationError(f"{path} is not TOML: {error}.", remedy="Correct it.") from error
    return document


def _without_tables(document: Mapping[str, object]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in document.items():
        if key in FAMILIES and isinstance(value, dict):
            found |= dict(_flattened(f"{key}.", value))
        else:
            found[key] = value
    return found


def read_environment(env: Mapping[str, str]) -> dict[str, object]:
    """Return the settings in the environment; variables without the prefix are ignored.

    Raises:
        ConfigurationError: a variable of a family has an empty part in its name.
    """
    found: dict[str, object] = {}
    for variable, value in env.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in OTHER_VARIABLES:
            continue
        if _KUBERNETES.fullmatch(f"{variable}={value}"):
            continue
        key = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
        family, _, member = key.partition("_")
        if family in FAMILIES and member:
            found[f"{family}.{_member_name(variable, member)}"] = value
        else:
            found[key] = value
    return found


def _member_name(variable: str, member: str) -> str:
    parts = member.split("_")
    if not all(parts):
        raise ConfigurationError(
            f"{variable} has an empty part between two underscores.",
            remedy="Write one underscore for each dot: CHECKBACK_KAFKA_SASL_PASSWORD is "
            "kafka.sasl.password.",
            variable=variable,
        )
    return ".".join(parts)


def setting_text(value: object) -> str:
    """Return a value as text for the environment or a flag."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def write_settings(file: Path, settings: Settings) -> None:
    """Write a configuration file that only its owner may read."""
    file.touch(mode=0o600)  # it may contain Kafka's password
    file.write_text(toml_of(settings), "utf-8")


def environment_without_settings() -> dict[str, str]:
    """Return this process's environment without settings, for a process that has them in a file."""
    set_there = {f"{ENVIRONMENT_PREFIX}{name.upper()}" for name in _FIELDS}
    families = tuple(f"{ENVIRONMENT_PREFIX}{family.upper()}_" for family in FAMILIES)
    return {
        name: value
        for name, value in os.environ.items()
        if name not in set_there and not name.startswith(families)
    }


def toml_of(settings: Settings) -> str:
    """Return the settings as a configuration file, without those that have their default."""
    lines = []
    for one in fields(Settings):
        value = getattr(settings, one.name)
        if isinstance(value, Mapping):
            lines += [f"{one.name}.{_toml(key)} = {_toml(member)}" for key, member in value.items()]
        elif value != setting_default(one):
            lines.append(f"{one.name} = {_toml(value)}")
    # A family's dotted keys make a table; TOML takes them anywhere at the top level.
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    """Return a string, number or boolean as TOML; JSON writes these three in the same way."""
    return json.dumps(value, ensure_ascii=False)


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
            remedy=f"The nearest one is {nearest!r}. `checkback config show` lists all settings.",
            key=key,
            source=source,
        )


def _validated(values: Mapping[str, object]) -> Settings:
    arguments: dict[str, object] = {key: values[key] for key in values if "." not in key}
    for family in FAMILIES:
        members = {key: value for key, value in values.items() if key.startswith(f"{family}.")}
        arguments[family] = {
            key.partition(".")[2]: setting_text(value) for key, value in members.items()
        }
    try:
        return _ADAPTER.validate_python(arguments)
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        raise ConfigurationError(
            f"{key} is {mask(key, repr(first['input']))}.",
            remedy=f"{first['msg'].rstrip('.')}.",
            key=key,
        ) from None  # a traceback would show the value, which may be a secret
