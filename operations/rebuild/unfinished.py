"""The file that marks an unfinished rebuild: ``checkback/rebuilding.json``.

A folder with this file and without an identity holds nothing that the topics do not hold, too. No
pipeline starts over it, because the identity is written at the end of a rebuild.
"""

from __future__ import annotations

import json
from typing import Final

from checkback.checkpoints.own_files.identity import FILE as IDENTITY
from checkback.checkpoints.store import CheckpointStore

FILE: Final = "rebuilding.json"


def is_unfinished(store: CheckpointStore) -> bool:
    """Return whether an earlier rebuild is unfinished."""
    return store.read_own(FILE) is not None and store.read_own(IDENTITY) is None


def begin(store: CheckpointStore, now_ms: int) -> None:
    """Mark the folder as being rebuilt."""
    store.replace_own(FILE, json.dumps({"began_at_ms": now_ms}))


def finish(store: CheckpointStore) -> None:
    """Remove the mark; the identity is already written."""
    store.delete_own(FILE)
