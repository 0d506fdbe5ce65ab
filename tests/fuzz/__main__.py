"""``python -m tests.fuzz SEED [--records N] [--relay]``: repeat a run, or look on."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

from tests.fuzz.run import FuzzRun

from checkback.deploy.broker import QUICK_START, EmbeddedBroker


def main() -> int:
    """Run the seed on a broker of its own; 1 when it fails, and what it left stays."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("seed", type=int)
    parser.add_argument("--records", type=int, default=20_000, help="how many are written")
    parser.add_argument("--relay", action="store_true", help="with a relay beside the job")
    wanted = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="checkback-fuzz-"))
    print(f"seed {wanted.seed}, in {folder}", flush=True)
    try:
        with EmbeddedBroker(folder / "broker", jvm_options=QUICK_START) as broker:
            run = FuzzRun(
                broker.bootstrap_servers,
                "fuzz-",
                folder / "run",
                wanted.seed,
                wanted.records,
                wanted.relay,
            )
            print(run.go())
    except Exception:
        traceback.print_exc()
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
