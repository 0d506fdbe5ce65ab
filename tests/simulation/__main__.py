"""``python -m tests.simulation SEED [--runs N] [--batches N]``: repeat a run, or look for more."""

from __future__ import annotations

import argparse
import sys
import traceback

from tests.simulation.run import BATCHES, Run, summary


def main() -> int:
    """Run the seeds; 1 when one of them fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("seed", type=int, help="the first seed")
    parser.add_argument("--runs", type=int, default=1, help="how many seeds, one after the other")
    parser.add_argument(
        "--batches", type=int, default=BATCHES, help="batches before the world calms"
    )
    wanted = parser.parse_args()
    for seed in range(wanted.seed, wanted.seed + wanted.runs):
        try:
            print(f"seed {seed}: {summary(Run(seed, wanted.batches).go())}")
        except AssertionError:
            traceback.print_exc()
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
