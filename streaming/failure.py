"""Why the query ended: the cause out of what Spark wraps around it."""

from __future__ import annotations

import re
from typing import Final

from pyspark.errors import StreamingQueryException

from checkback.protocol import errors
from checkback.protocol.errors import CheckbackError, OperationalError

OUR_ERROR: Final = re.compile(r"checkback\.[a-z_.]+\.(\w+Error): (.+)")
TEXT_MAX: Final = 2_000


def explain(failure: StreamingQueryException | None) -> CheckbackError:
    """Return the error to end with: our own if a task raised one, else Spark's in short."""
    text = "" if failure is None else str(failure)
    found = OUR_ERROR.findall(text)
    if found:
        name, message = found[-1]
        kind = getattr(errors, name, OperationalError)
        return (
            kind(message.strip()) if issubclass(kind, CheckbackError) else OperationalError(message)
        )
    lines = [line for line in text.splitlines() if line.strip()]
    return OperationalError(
        f"The query ended: {lines[0][:TEXT_MAX] if lines else 'no reason given'}",
        remedy="The next start continues from the checkpoint.",
        detail=text[:TEXT_MAX],
    )
