"""``python -m tests.crash SEED``: runs crashes from a seed and audits each; or repeats one of
them."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from tests.crash.cases import RELAYS, Case, random_cases, random_relay_cases
from tests.crash.run import BROKER_PROPERTIES, CrashRun

from checkback.deploy.broker import QUICK_START, EmbeddedBroker

CRASHES = 200
MINUTES = 90.0


def main() -> int:
    """Run the cases; return 1 if a message is lost or doubled, or a process hangs."""
    wanted = arguments()
    folder = Path(tempfile.mkdtemp(prefix="checkback-crash-"))
    began = time.monotonic()
    print(f"seed {wanted.seed}, in {folder}", flush=True)
    embedded = EmbeddedBroker(
        folder / "broker", properties=BROKER_PROPERTIES, jvm_options=QUICK_START
    )
    relays = RELAYS if wanted.relays else 0
    with (
        embedded as broker,
        CrashRun(broker, folder / "run", "crash-", wanted.seed, relays=relays) as run,
    ):
        survived, is_sound = crash_all(run, chosen(wanted), began + 60 * wanted.minutes)
        print(run.summary())
    minutes = (time.monotonic() - began) / 60
    print(f"seed {wanted.seed}: {survived} crashes survived in {minutes:.1f} minutes")
    if is_sound:
        shutil.rmtree(folder)
    return 0 if is_sound else 1


def crash_all(run: CrashRun, cases: Iterator[Case], until_s: float) -> tuple[int, bool]:
    """Return how many crashes the pipeline survived, and whether all audits passed."""
    survived, at = 0, "the first case"
    try:
        for case in cases:
            at = str(case)
            if time.monotonic() > until_s:
                print("the time is over", flush=True)
                break
            print(run.crash(case), flush=True)
            survived += 1
        at = "the last audit"
        run.finish()
    except Exception:
        traceback.print_exc()
        print(f"{at}: not survived. Case seed-n alone: python -m tests.crash seed --only n")
        return survived, False
    return survived, True


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.crash")
    parser.add_argument("seed", type=int)
    parser.add_argument("--crashes", type=int, default=CRASHES, help="how many")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="begin none after that")
    parser.add_argument("--from", dest="first", type=int, default=0, help="begin with this one")
    parser.add_argument("--only", type=int, help="this one of the seed's alone")
    parser.add_argument("--relays", action="store_true", help="two relays run, and die, too")
    return parser.parse_args()


def chosen(wanted: argparse.Namespace) -> Iterator[Case]:
    cases = (random_relay_cases if wanted.relays else random_cases)(wanted.seed)
    if wanted.only is not None:
        return islice(cases, wanted.only, wanted.only + 1)
    return islice(cases, wanted.first, wanted.first + wanted.crashes)


if __name__ == "__main__":
    sys.exit(main())
