"""``python -m tests.simulation.exactly_once SEED [--crashes N]``: repeat a run, look for more."""

from __future__ import annotations

import argparse
import sys
import traceback

from tests.simulation.exactly_once.run import CRASHES, Run, summary
from tests.simulation.exactly_once.worlds import KINDS


def main() -> int:
    """Run the seeds; 1 when one of them fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.exactly_once")
    parser.add_argument("seed", type=int, help="the first seed")
    parser.add_argument("--crashes", type=int, default=CRASHES, help="until the world calms down")
    parser.add_argument("--runs", type=int, default=1, help="how many seeds, one after the other")
    parser.add_argument("--world", choices=KINDS, help="which; without it, as the seed has it")
    parser.add_argument("--told", action="store_true", help="print every await")
    wanted = parser.parse_args()
    for seed in range(wanted.seed, wanted.seed + wanted.runs):
        world, chances = KINDS.get(wanted.world, (None, None))
        run = Run(seed, wanted.crashes, world, chances)
        run.fates.told = [] if wanted.told else None
        try:
            print(f"seed {seed}: {summary(run.go())}")
        except AssertionError:
            traceback.print_exc()
            return 1
        finally:
            sys.stdout.writelines(f"{line}\n" for line in run.fates.told or ())
    return 0


if __name__ == "__main__":
    sys.exit(main())
