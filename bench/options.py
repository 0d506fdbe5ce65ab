"""Declares the options of the verbs of ``checkback bench``.

A verb's options are a dataclass: its docstring is the verb's help, and each field is an option. The
command line is built from it, the bench reads it, and the result contains it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from checkback.bench.runs import BenchFindings
from checkback.bench.stage import BenchSetting

Options = TypeVar("Options")
Say = Callable[[str], None]
"""Prints progress for a person."""

REPOSITORY: Final = "checkback.bench.repository"
_AS_IT_IS: Final = object()


def is_checkout() -> bool:
    """Return whether this is a checkout, which has more verbs than the installed package."""
    return find_spec(REPOSITORY) is not None


def option(
    default: object,
    text: str = "",
    *,
    smoke: object = _AS_IT_IS,
    least: float | None = None,
    most: float | None = None,
    metavar: str | None = None,
) -> Any:
    """Declare an option: a field of a verb's options.

    Args:
        default: its default.
        text: its help.
        smoke: its value with ``--smoke``, which overrides a given one.
        least: the smallest allowed number.
        most: the largest allowed number.
        metavar: the name of the value in its help.
    """
    facts: dict[str, object] = {"text": text, "least": least, "most": most, "metavar": metavar}
    if smoke is not _AS_IT_IS:
        facts["smoke"] = smoke
    return field(default=default, metadata=facts)


def with_smoke(options: Options) -> Options:
    """Return the options for a smoke run: very short, only to show that the verb works."""
    chosen: Any = options
    short = {one.name: one.metadata["smoke"] for one in fields(chosen) if "smoke" in one.metadata}
    found: Options = replace(chosen, **short)
    return found


def bootstrap_servers() -> Any:
    """Declare ``--bootstrap-servers``."""
    return option(None, "Use this Kafka instead of starting one.")


def topic_prefix() -> Any:
    """Declare ``--topic-prefix``."""
    return option("bench-", "Prefix of the topics.")


def body_bytes(default: int) -> Any:
    """Declare ``--body-bytes``."""
    return option(default, "Message size.", least=1)


def transactions(default: int, smoke: object = _AS_IT_IS, *, least: int = 40) -> Any:
    """Declare ``--transactions``."""
    return option(default, "Transactions per run.", smoke=smoke, least=least)


def runs(default: int = 3) -> Any:
    """Declare ``--runs``."""
    return option(default, "Runs of each kind.", smoke=1, least=1)


def rate(smoke: float) -> Any:
    """Declare ``--rate``."""
    return option(1_000.0, "Transactions per second.", smoke=smoke, least=1)


def batch_events(default: int) -> Any:
    """Declare ``--batch-events``."""
    return option(default, "Most halves and ops that one batch reads.", smoke=2_000, least=100)


def warm_up() -> Any:
    """Declare ``--warm-up``."""
    return option(0.25, "Share of a run that counts as warm-up.", least=0, most=0.9)


def pending(text: str, smoke: int) -> Any:
    """Declare ``--pending``."""
    return option(1_000_000, text, smoke=smoke, least=40)


def seconds(default: float | None, text: str, smoke: float, *, least: float = 1) -> Any:
    """Declare an option that takes seconds."""
    return option(default, text, smoke=smoke, least=least)


@dataclass(frozen=True)
class CommonOptions:
    """Options that all verbs for the pipeline have."""

    bootstrap_servers: str | None = bootstrap_servers()
    topic_prefix: str = topic_prefix()
    data_dir: Path | None = option(
        None, "Folder for all data; it is kept. Default: a temporary one."
    )
    seed: int = option(7)
    body_bytes: int = body_bytes(1_024)
    setting: tuple[str, ...] = option(
        (), "A setting for the runs, also spark.* or kafka.*; can be repeated.", metavar="KEY=VALUE"
    )
    smoke: bool = option(default=False, text="A tiny run that only shows that the verb works.")
    picture: Path | None = option(None, "Draw batch times and rates into this .svg or .png.")
    save: Path | None = option(None, "Also write the JSON document to this file.")

    def as_data(self) -> dict[str, object]:
        """Return the options that affect the result."""
        return {
            "seed": self.seed,
            "body_bytes": self.body_bytes,
            "settings": list(self.setting),
            "embedded_broker": self.bootstrap_servers is None,
            "smoke": self.smoke,
        }


class Bench(Protocol):
    """The runs of one call of a verb."""

    def run(self) -> BenchFindings:
        """Do all runs."""
        ...


@dataclass(frozen=True)
class Verb:
    """A verb of ``checkback bench``.

    Args:
        name: of the verb.
        options: dataclass of its own options; an option batch_events sets batch_events_max.
        bench: creates its runs from the stage, the options and the progress function.
        body_bytes: another default for the option body_bytes.
    """

    name: str
    options: type[Any]
    bench: Callable[[BenchSetting, Any, Say], Bench]
    body_bytes: int | None = None
