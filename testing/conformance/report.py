"""The rows of a report: what was tried, and whether it held."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum


class RowResult(StrEnum):
    """How a row ended."""

    HELD = "held"
    FAILED = "failed"
    NOT_SUPPORTED = "not supported"


class FailedError(AssertionError):
    """The client under test does not do what the wire format says."""


class NotSupportedError(Exception):
    """The program says that its client lacks what a case needs."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the report.

    Args:
        stage: the deployment that the case ran against.
        case: what the case tries.
        verdict: how it ended.
        detail: what went wrong or is missing, empty where the case held.
        seconds: how long it took.
    """

    stage: str
    case: str
    verdict: RowResult
    detail: str
    seconds: float


def require(holds: object, what: str) -> None:
    """Fail the case unless a condition holds.

    Raises:
        FailedError: it does not hold.
    """
    if not holds:
        raise FailedError(what)


def require_equal(found: object, expected: object, what: str) -> None:
    """Fail the case unless two values are equal.

    Raises:
        FailedError: they differ; the text has both.
    """
    require(found == expected, f"{what} is {found!r}, expected {expected!r}")


def as_text(rows: Sequence[Row]) -> str:
    """Return the report as lines for a terminal."""
    width = max((len(row.case) for row in rows), default=0)
    lines = [
        f"{row.stage:<10} {row.case:<{width}} {row.verdict}  {row.detail}".rstrip() for row in rows
    ]
    counts = ", ".join(
        f"{sum(row.verdict is verdict for row in rows)} {verdict}" for verdict in RowResult
    )
    return "\n".join([*lines, counts])


def as_json(rows: Sequence[Row]) -> str:
    """Return the report as JSON lines, one a row."""
    return "\n".join(json.dumps(asdict(row)) for row in rows)
