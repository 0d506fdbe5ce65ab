"""Some hundred of the simulation's crashes, for each change: ten thousand take too long for that.

Pytest finds this file only where it is named: `make test` has the ten thousand.
"""

from __future__ import annotations

import pytest
from tests.simulation.exactly_once.run import Run
from tests.simulation.exactly_once.worlds import KINDS

CRASHES = 20


# A changed pipeline may try for ever; one run takes half a second.
@pytest.mark.timeout(15)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["one-driver", "two-drivers", "touched"])
def test_what_must_hold_holds_over_some_crashes(kind: str, seed: int) -> None:
    Run(seed, CRASHES, *KINDS[kind]).go()
