"""Handing settings to a process of its own: all in one file, none by the environment."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from checkback.protocol.configuration import Settings, setting_default


def write_settings(file: Path, settings: Settings) -> None:
    """Write a configuration file that only its owner may read."""
    file.touch(mode=0o600)  # it may hold the password of an existing Kafka
    file.write_text(toml_of(settings), "utf-8")


def environment_without_settings() -> dict[str, str]:
    """Return this process's environment but for the settings in it: the file has them all."""
    set_there = {f"CHECKBACK_{one.name.upper()}" for one in fields(Settings)}
    families = ("CHECKBACK_KAFKA_", "CHECKBACK_SPARK_")
    return {
        name: value
        for name, value in os.environ.items()
        if name not in set_there and not name.startswith(families)
    }


def toml_of(settings: Settings) -> str:
    """Return the settings as a configuration file; what has its default is left out."""
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
    """Return a string, number or truth value as TOML: JSON writes these three the same way."""
    return json.dumps(value, ensure_ascii=False)
