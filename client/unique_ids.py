"""Transaction and message ids, without a system call for each."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Final

ID_BITS: Final = 128
SEED_BYTES: Final = 32


def unique_ids() -> Callable[[], str]:
    """Return what makes ids: 32 hexadecimal digits, of chance seeded by the operating system.

    Made in the process that uses it: a fork would make the same ids again. Threads may share it.
    """
    bits = random.Random(os.urandom(SEED_BYTES)).getrandbits  # noqa: S311 - ids are no secrets
    return lambda: f"{bits(ID_BITS):032x}"
