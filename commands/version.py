"""The version that runs, and the commit that it was built from."""

from __future__ import annotations

import subprocess
from importlib import resources
from pathlib import Path
from typing import Final

import checkback

COMMIT_FILE: Final = "commit.txt"
"""Written by setup.py into wheels and source archives."""
GIT_TIMEOUT_S: Final = 5.0


def version_text() -> str:
    """Return ``checkback <version> (<commit>)``; without the commit where it is not known."""
    commit = known_commit()
    return f"checkback {checkback.__version__}" + (f" ({commit})" if commit else "")


def known_commit() -> str:
    """Return the commit that runs, "" where it is not known."""
    return built_commit() or checkout_commit(Path(checkback.__file__).resolve().parents[2])


def built_commit() -> str:
    """Return the commit that an installed package was stamped with, "" if it has no stamp."""
    stamp = resources.files("checkback").joinpath(COMMIT_FILE)
    return stamp.read_text("ascii").strip() if stamp.is_file() else ""


def checkout_commit(root: Path) -> str:
    """Return the commit of a checkout, marked if files differ from it; "" for another folder."""
    if not (root / ".git").exists():
        return ""
    described = ["git", "-C", str(root), "describe", "--always", "--exclude=*", "--abbrev=12"]
    try:
        ran = subprocess.run(
            [*described, "--dirty"],
            capture_output=True,
            text=True,
            timeout=GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ran.stdout.strip()
