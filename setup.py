"""What pyproject.toml can't say: the compiled part of the sink, tags of wheels, and the commit.

The compiled part is no Python module, so it needs neither Python's headers nor a name that Python
would import, and one wheel of a platform serves every Python. With CHECKBACK_PURE=1 it is left out,
and the wheel serves every platform.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

FORWARD = "checkback.sinks.native.forward"
COMMIT_FILE = "commit.txt"
IS_PURE = os.environ.get("CHECKBACK_PURE", "") not in ("", "0")


def commit() -> str:
    """Return the commit that is built: of the environment, of a source archive, of git; or ""."""
    named = os.environ.get("CHECKBACK_COMMIT")
    if named:
        return named
    archived = Path("src", "checkback", COMMIT_FILE)
    if archived.exists():
        return archived.read_text("ascii").strip()
    if not Path(".git").exists():
        return ""
    command = ["git", "rev-parse", "--short=12", "HEAD"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return ran.stdout.strip() if ran.returncode == 0 else ""


def stamp(folder: Path) -> None:
    """Write the commit to a package's folder, if it is known."""
    found = commit()
    if found:
        (folder / COMMIT_FILE).write_text(f"{found}\n", "ascii")


class BuildNative(build_ext):
    """Builds it as `sinks/native/forward.native.so`, whatever Python it is built with."""

    def get_ext_filename(self, fullname: str) -> str:
        """Return the file's path below the folder that is built into."""
        return fullname.replace(".", "/") + ".native.so"


class BuildStamped(build_py):
    """Writes the commit into what is built; an editable installation asks git."""

    def run(self) -> None:
        """Build the modules, and stamp them."""
        super().run()
        if not self.editable_mode:
            stamp(Path(self.build_lib) / "checkback")


class StampedSdist(sdist):
    """Writes the commit into the source archive, which has no git."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Copy the files, and stamp them."""
        super().make_release_tree(base_dir, files)
        stamp(Path(base_dir) / "src" / "checkback")


class PlatformWheel(bdist_wheel):
    """Names the wheel for every Python 3 of its platform."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the wheel's tags."""
        python, abi, platform = super().get_tag()
        return (python, abi, platform) if self.root_is_pure else ("py3", "none", platform)


setup(
    # Optional: without a C compiler the package is built without it, and the sink is slower.
    ext_modules=[]
    if IS_PURE
    else [
        Extension(
            FORWARD,
            ["sinks/native/forward.c"],
            optional=True,
            extra_compile_args=["-O2", "-std=c11"],
        )
    ],
    cmdclass={
        "build_ext": BuildNative,
        "build_py": BuildStamped,
        "sdist": StampedSdist,
        "bdist_wheel": PlatformWheel,
    },
)
