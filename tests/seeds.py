"""The seed of a run that draws its input."""

from __future__ import annotations

import os
import random


def chosen_seed(otherwise: int | None = None) -> int:
    """Return the seed that SEED gives (`make nightly SEED=7`), and print it.

    Args:
        otherwise: the seed without one, None for a new one at every run.
    """
    given = os.environ.get("SEED")
    if given is not None:
        seed = int(given)
    else:
        seed = random.randrange(10**6) if otherwise is None else otherwise
    print(f"seed {seed}")
    return seed
