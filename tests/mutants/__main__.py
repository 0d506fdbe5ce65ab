"""Mutation testing: ``make mutants`` changes the code line by line, and the tests must notice.

cosmic-ray changes files in place, so each of some processes works in a copy. What survives is
printed: a line that no test needs, or a change that makes no difference. ``make mutants PLAN=marker
SHARE=0.1`` takes a tenth of the changes, chosen by the seed.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
SURVIVORS: Final = """
    SELECT module_path, start_pos_row, operator_name, occurrence
    FROM mutation_specs JOIN work_results USING (job_id)
    WHERE test_outcome = 'SURVIVED'
"""
OUTCOMES: Final = """
    SELECT CASE WHEN output = 'timeout' THEN 'late' ELSE lower(test_outcome) END, COUNT(*)
    FROM work_results GROUP BY 1
"""


def main() -> int:
    """Run one plan; exit code 1 where a change survived."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    plans = sorted(path.stem for path in HERE.glob("*.toml"))
    parser.add_argument("plan", choices=plans)
    parser.add_argument("--share", type=float, default=1.0, help="of the changes, 0 to 1")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args()
    with TemporaryDirectory(prefix="checkback-mutants-") as folder:
        trees = [Path(folder) / f"tree-{number}" for number in range(max(1, chosen.processes))]
        for tree in trees:
            _copy_tree(tree)
        session = Path(folder) / "session.sqlite"
        plan = str(HERE / f"{chosen.plan}.toml")
        # Tests that fail without a change, or are not there, would seem to notice every change.
        _run(trees[0], "cosmic-ray", "baseline", plan)
        _run(trees[0], "cosmic-ray", "init", plan, str(session))
        _run(trees[0], "cr-filter-operators", str(session), plan)
        kept, changes = _keep_share(session, chosen.share, chosen.seed)
        print(f"{kept} of the {changes} changes of the plan {chosen.plan}", flush=True)
        began_s = time.monotonic()
        sessions = _deal_out(session, len(trees))
        with ThreadPoolExecutor(len(trees)) as pool:
            list(pool.map(partial(_try_changes, plan), trees, sessions))
        print(f"{(time.monotonic() - began_s) / max(1, kept):.1f} s for each")
        return _report(sessions)


def _copy_tree(copy: Path) -> None:
    """Copy what git tracks, and the compiled part; links stay links, to be imported through."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    built = [str(path.relative_to(ROOT)) for path in ROOT.glob("sinks/native/*.so")]
    for name in [*filter(None, listed.split("\0")), *built]:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)


def _run(copy: Path, program: str, *arguments: str) -> None:
    folder = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy / "src"),
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
    }
    ran = subprocess.run([folder / program, *arguments], cwd=copy, env=environment, check=False)
    if ran.returncode:
        sys.exit(
            f"{program} {arguments[0]} failed; a busy machine needs a longer timeout in the plan"
        )


def _keep_share(session: Path, share: float, seed: int) -> tuple[int, int]:
    """Keep a share of the changes; return how many these are, and how many there were."""
    with sqlite3.connect(session) as database:
        jobs = [job for (job,) in database.execute("SELECT job_id FROM work_items ORDER BY job_id")]
        done = {job for (job,) in database.execute("SELECT job_id FROM work_results")}
        left = [job for job in jobs if job not in done]
        random.Random(seed).shuffle(left)
        kept = round(len(left) * share)
        _leave_out(database, left[kept:])
    return kept, len(left)


def _deal_out(session: Path, processes: int) -> list[Path]:
    """Return a session for each process; together they have the changes of this one."""
    dealt = [session.with_name(f"session-{number}.sqlite") for number in range(processes)]
    for number, part in enumerate(dealt):
        shutil.copy2(session, part)
        with sqlite3.connect(part) as database:
            jobs = [job for (job,) in database.execute("SELECT job_id FROM work_items ORDER BY 1")]
            _leave_out(database, [job for at, job in enumerate(jobs) if at % processes != number])
    return dealt


def _leave_out(database: sqlite3.Connection, jobs: Iterable[str]) -> None:
    for job in jobs:
        database.execute("DELETE FROM mutation_specs WHERE job_id = ?", (job,))
        database.execute("DELETE FROM work_items WHERE job_id = ?", (job,))


def _try_changes(plan: str, tree: Path, session: Path) -> None:
    _run(tree, "cosmic-ray", "exec", plan, str(session))


def _report(sessions: Sequence[Path]) -> int:
    survivors, outcomes = [], Counter[str]()
    for session in sessions:
        with sqlite3.connect(session) as database:
            survivors += database.execute(SURVIVORS).fetchall()
            outcomes.update(dict(database.execute(OUTCOMES)))
    for module, row, operator, occurrence in sorted(survivors):
        print(f"survived: {module}:{row} {operator} ({occurrence})")
    killed, late, survived = outcomes["killed"], outcomes["late"], len(survivors)
    print(f"{killed + late} changes noticed ({late} by the time limit), {survived} survived")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
