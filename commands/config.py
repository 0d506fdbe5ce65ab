"""``checkback config``: the settings in effect."""

from __future__ import annotations

from typing import cast

import click

from checkback.commands.shared.output import CommandOutput, output_option
from checkback.commands.shared.settings import every_setting_options
from checkback.deploy.settings import FAMILIES, LoadedSettings


@click.group(help="Show the settings in effect.")
def command() -> None:
    """Group the verbs."""


@command.command()
@output_option
@every_setting_options
def show(loaded: LoadedSettings, output: CommandOutput) -> None:
    """Show each setting, secrets masked, and where it came from.

    The source is the default, the file, the environment or a flag.
    """
    values = flat_values(loaded)
    rows = {key: {"value": value, "source": loaded.sources[key]} for key, value in values.items()}
    width = max(len(key) for key in rows)
    lines = [
        f"{key:<{width}} = {_shown(value)}  ({loaded.sources[key]})"
        for key, value in values.items()
    ]
    output.show({"settings": rows}, "\n".join(lines), is_folded=False)


def _shown(value: object) -> object:
    """Return a value as it stands in a settings file, and nothing for one that is not set."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else value


def flat_values(loaded: LoadedSettings) -> dict[str, object]:
    """Return every setting by its full key, secrets masked; a family's members one by one."""
    masked = loaded.settings.masked()
    families = {name: masked.pop(name) for name in FAMILIES}
    for name, members in families.items():
        members = cast("dict[str, object]", members)
        masked |= {f"{name}.{key}": value for key, value in members.items()}
    return masked
