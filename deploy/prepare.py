"""Prepares a checkout: ``.venv`` with everything in it. Run by ``make setup``.

Runs under the system's Python before anything is installed, so it needs the standard library and
those parts of Checkback that do too.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # nothing is installed yet

from checkback.deploy.java import find_java  # noqa: E402 - after the path above
from checkback.protocol.errors import CheckbackError, PrerequisiteError  # noqa: E402

ENVIRONMENT = ROOT / ".venv"
BIN = ENVIRONMENT / "bin"
FREE_BYTES_LEAST = 3_000_000_000
"""The environment takes 1.6 GB; pyspark is built from its source archive, which needs as much."""


def main() -> int:
    """Prepare the environment, or say in one sentence what stands against it."""
    try:
        find_java()  # before the long download, not after it
        _require_room()
        _make_environment()
        print("Installing the Python packages into .venv; the first time takes some minutes.")
        _pip("--require-hashes", "--requirement", "requirements/build.txt")
        # Without isolation pip takes setuptools from the lock, not from wherever it finds one.
        _pip(
            "--require-hashes",
            "--no-build-isolation",
            "--requirement",
            "requirements/development.txt",
        )
        _pip("--no-deps", "--no-build-isolation", "--editable", ".")
    except CheckbackError as error:
        print(f"checkback: {error}", file=sys.stderr)
        return error.exit_code
    fetched = subprocess.run([BIN / "checkback", "jars", "fetch"], check=False).returncode
    if fetched == 0:
        # Nothing needs it; each start is faster with it. Where it can't be made, it says why.
        subprocess.run([BIN / "checkback", "jars", "archive"], check=False)
    return fetched


def _require_room() -> None:
    free = shutil.disk_usage(ROOT).free
    if not (BIN / "checkback").exists() and free < FREE_BYTES_LEAST:
        raise PrerequisiteError(
            f"The disk of {ROOT} has {free / 1e9:.1f} GB left.",
            remedy=f"Free some: setting up needs {FREE_BYTES_LEAST / 1e9:.0f} GB.",
        )


def _make_environment() -> None:
    if (BIN / "pip").exists():
        return
    made = subprocess.run(
        [sys.executable, "-m", "venv", ENVIRONMENT], capture_output=True, text=True, check=False
    )
    said = made.stdout + made.stderr
    if "No space left" in said:
        raise _no_room()
    if made.returncode != 0:
        raise PrerequisiteError(
            f"{sys.executable} can't make a virtual environment.",
            remedy="Install its venv module (on Debian and Ubuntu the package python3-venv).",
        )


def _pip(*arguments: str) -> None:
    command = [str(BIN / "pip"), "install", "--disable-pip-version-check", *arguments]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise _pip_error(ran.stdout + ran.stderr)


def _pip_error(said: str) -> PrerequisiteError:
    if "No space left" in said:
        return _no_room()
    if re.search(r"connection broken|Max retries|timed out|Could not fetch|No matching dist", said):
        return PrerequisiteError(
            "The Python packages can't be fetched.",
            remedy="Check the network, or name your mirror to pip (PIP_INDEX_URL).",
        )
    log = ENVIRONMENT / "pip.log"
    log.write_text(said, "utf-8")
    errors = [line for line in said.splitlines() if line.lower().startswith("error")]
    what = errors[-1] if errors else "pip failed"
    return PrerequisiteError(f"{what.rstrip('.')}.", remedy=f"All that pip said is in {log}.")


def _no_room() -> PrerequisiteError:
    return PrerequisiteError(
        "No space is left on the disk.",
        remedy="Free some for .venv, or let TMPDIR name a folder with room, and run it again.",
    )


if __name__ == "__main__":
    sys.exit(main())
