"""From which batch on each state partition has a marker.

Batch 0 writes the marker of every state partition, so one that is missing later means a loss. State
partitions that a repartition made have none before their first batch; which that is is written
down here, beside the checkpoint's other files, where the start and the sink look it up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, Protocol

from checkback.protocol.errors import CheckpointError

FILE: Final = "markers.json"
FORMAT: Final = 1


class TextFiles(Protocol):
    """Where our small files lie."""

    def read(self, name: str) -> str | None:
        """Return one of our files as text, None where it does not exist."""
        ...


def read_expected_from(folder: TextFiles) -> dict[int, int]:
    """Return the first batch that writes a marker by state partition; 0 for all not named.

    Raises:
        CheckpointError: the file is damaged.
    """
    text = folder.read(FILE)
    return {} if text is None else expected_from_json(text)


def expected_from_json(text: str) -> dict[int, int]:
    """Read the file's text.

    Raises:
        CheckpointError: it is damaged, or of a later format.
    """
    try:
        raw = json.loads(text)
        if raw["format"] != FORMAT:
            raise _unreadable(f"it has format {raw['format']}")
        return {int(number): int(batch) for number, batch in raw["expected_from"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _unreadable(str(error)) from error


def _unreadable(why: str) -> CheckpointError:
    return CheckpointError(
        f"The checkpoint's {FILE} can't be read: {why}.",
        remedy="Restore the folder as it was; see docs/operating/recovering.md.",
    )


def expected_to_json(expected_from: Mapping[int, int]) -> str:
    """Return the file's text."""
    batches = {str(number): batch for number, batch in sorted(expected_from.items())}
    return json.dumps({"format": FORMAT, "expected_from": batches}, indent=2)
