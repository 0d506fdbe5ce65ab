"""Transaction and message ids, without a system call for each."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Final

ID_BITS: Final = 128
SEED_BYTES: Final = 32


def unique_ids() -> Callable[[], str]:
    """Return a function that makes ids: 32 random hex digits, seeded by the operating system.

    Call it in the process that needs the ids: after a fork, parent and child would make the same
    ones. Threads may share it.
    """
    bits = random.Random(os.urandom(SEED_BYTES)).getrandbits  # noqa: S311 - ids are no secrets
    return lambda: f"{bits(ID_BITS):032x}"
