"""Prepares a checkout: ``.venv`` with everything in it. Run by ``make setup``.

With ``--to-run``, as ``make demo`` runs it, without what only developers need.

Runs under the system's Python before anything is installed, so it imports only the standard library
and parts of Checkback that need nothing else.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # nothing is installed yet

from checkback.deploy.java import find_java  # noqa: E402 - after the path above
from checkback.protocol.errors import CheckbackError, PrerequisiteError  # noqa: E402

ENVIRONMENT = ROOT / ".venv"
BIN = ENVIRONMENT / "bin"
STEPS = 6
FREE_BYTES_LEAST = 3_000_000_000
"""The environment takes 1.6 GB; building pyspark from its source archive needs as much again."""


def main() -> int:
    """Prepare the environment, or say in one sentence why that is not possible."""
    # Without what only developers need, if only to run.
    lock = f"requirements/{'extras' if '--to-run' in sys.argv else 'development'}.txt"
    try:
        find_java()  # before the long download, not after it
        _require_room()
        _say(1, "makes .venv")
        _make_environment()
        _say(2, "installs what builds packages")
        _pip("--require-hashes", "--requirement", "requirements/build.txt")
        _say(3, f"installs {_packages_of(lock)} Python packages; the first time takes minutes")
        # Without build isolation pip uses the locked setuptools.
        _pip("--require-hashes", "--no-build-isolation", "--requirement", lock)
        _say(4, "compiles and installs Checkback")
        _pip("--no-deps", "--no-build-isolation", "--editable", ".")
    except CheckbackError as error:
        print(f"checkback: {error}", file=sys.stderr)
        return error.exit_code
    _say(5, "fetches the jars of Spark and Kafka")
    fetched = subprocess.run([BIN / "checkback", "jars", "fetch"], check=False).returncode
    if fetched == 0:
        _say(6, "archives the classes of both JVMs, for quicker starts: half a minute")
        # Optional. If it can't be done, the program says why.
        subprocess.run([BIN / "python", "-m", "tools.class_archives"], cwd=ROOT, check=False)
    return fetched


def _say(step: int, what: str) -> None:
    print(f"set-up {step}/{STEPS}: {what}", flush=True)


def _packages_of(lock: str) -> int:
    return (ROOT / lock).read_text("ascii").count("==")


def _require_room() -> None:
    free = shutil.disk_usage(ROOT).free
    if not (BIN / "checkback").exists() and free < FREE_BYTES_LEAST:
        raise PrerequisiteError(
            f"The disk of {ROOT} has {free / 1e9:.1f} GB left.",
            remedy=f"Free some space: the setup needs {FREE_BYTES_LEAST / 1e9:.0f} GB.",
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
    """Run pip: on a terminal with its own progress, elsewhere with a line now and then."""
    command = [str(BIN / "pip"), "install", "--disable-pip-version-check", *arguments]
    is_terminal = sys.stdout.isatty()
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=None if is_terminal else subprocess.PIPE,
        stderr=subprocess.PIPE if is_terminal else subprocess.STDOUT,
        text=True,
    ) as pip:
        said = "".join(_read(pip.stderr or pip.stdout or ()))
    if pip.returncode != 0:
        raise _pip_error(said)


def _read(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of pip; print how far it is."""
    collected = 0
    for line in lines:
        yield line
        collected += line.startswith("Collecting ")
        if line.startswith("Collecting ") and collected % 50 == 0:
            print(f"set-up: {collected} packages collected", flush=True)
        elif line.startswith("Installing collected packages") and collected:
            print(f"set-up: {collected} packages collected, installs them", flush=True)


def _pip_error(said: str) -> PrerequisiteError:
    if "No space left" in said:
        return _no_room()
    if re.search(r"connection broken|Max retries|timed out|Could not fetch|No matching dist", said):
        return PrerequisiteError(
            "The Python packages can't be fetched.",
            remedy="Check the network, or set PIP_INDEX_URL to your mirror.",
        )
    log = ENVIRONMENT / "pip.log"
    log.write_text(said, "utf-8")
    errors = [line for line in said.splitlines() if line.lower().startswith("error")]
    what = errors[-1] if errors else "pip failed"
    return PrerequisiteError(f"{what.rstrip('.')}.", remedy=f"pip's whole output is in {log}.")


def _no_room() -> PrerequisiteError:
    return PrerequisiteError(
        "No space is left on the disk.",
        remedy="Free some space for .venv, or set TMPDIR to a folder with space, and run it again.",
    )


if __name__ == "__main__":
    sys.exit(main())
