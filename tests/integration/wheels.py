"""Builds the wheel as it is published, and makes it importable for a Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))

BUILD = """
import os
import sys
import tarfile
from setuptools import build_meta

built = sys.argv[1]  # setuptools puts its own arguments there
name = build_meta.build_sdist(built)
os.chdir(built)
tarfile.open(name).extractall(filter="data")
os.chdir(name.removesuffix(".tar.gz"))
print(build_meta.build_wheel(built))
"""


def copy_checkout(folder: Path) -> None:
    """Copy what a package is built from, and nothing that was built."""
    for name in ("pyproject.toml", "setup.py", "README.md"):
        shutil.copy(ROOT / name, folder)
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.native.so")
    for name in (*FOLDERS, "docs", "src"):
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignore)


def built_wheel(folder: Path, environment: Mapping[str, str] | None = None) -> Path:
    """Build the wheel from the source archive, not from the checkout.

    Args:
        folder: for both, and for a copy of the checkout.
        environment: more variables for the build.
    """
    checkout, built = folder / "checkout", folder / "built"
    checkout.mkdir()
    copy_checkout(checkout)
    ran = subprocess.run(
        [sys.executable, "-c", BUILD, str(built)],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **(environment or {})},
    )
    assert ran.returncode == 0, ran.stderr
    return built / ran.stdout.splitlines()[-1]


def unpack_wheel(wheel: Path, python: Path) -> None:
    """Do to a Python what an installation without dependencies does."""
    own = next((python.parents[1] / "lib").glob("python3*/site-packages"))
    zipfile.ZipFile(wheel).extractall(own)
