"""An error as JSON, also where click is not installed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

from checkback.protocol.errors import CheckbackError


def asks_for_json(arguments: Sequence[str]) -> bool:
    """Return whether the raw arguments choose JSON: an error may come before click reads them.

    Args:
        arguments: the command line without the program's name.
    """
    return "--output=json" in arguments or ("--output", "json") in pairwise(arguments)


def error_document(error: CheckbackError, *, kind: str = "", exit_code: int | None = None) -> str:
    """Return the JSON object ``{"error": ...}``.

    Args:
        error: what happened.
        kind: instead of the name of the error's class.
        exit_code: instead of the one of the error's class.
    """
    document = {
        "kind": kind or type(error).__name__,
        "message": error.message,
        "remedy": error.remedy,
        "fields": error.fields,
        "exit_code": error.exit_code if exit_code is None else exit_code,
    }
    return json.dumps({"error": document}, default=str)
