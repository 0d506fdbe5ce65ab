"""Packs what spark-submit sends to a cluster: Checkback as a zip, the jars, a program to start.

Spark ignores wheels among its Python files, and a driver inside a cluster has no checkout. What
stays with the cluster's Python is in requirements/spark.txt.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from checkback.deploy.jars import Conf, ensure_jars
from checkback.protocol.errors import PrerequisiteError
from checkback.streaming.spark.shipped_package import package_zip

PROGRAM: Final = '''"""Started by spark-submit: the command line of checkback in Spark's driver."""

from checkback.commands import main

main()
'''


@dataclass(frozen=True, slots=True)
class Pack:
    """Files for spark-submit."""

    package: Path
    program: Path
    jars: Sequence[Path]

    @property
    def submit_options(self) -> list[str]:
        """The options of spark-submit that name the files."""
        return ["--py-files", str(self.package), "--jars", ",".join(map(str, self.jars))]


def write_pack(folder: Path, confs: Sequence[Conf] = ("spark",), commit: str = "") -> Pack:
    """Write the files to a folder, which is created if it is missing.

    Raises:
        PrerequisiteError: the folder can't be written, or the jars can't be fetched.
    """
    found = [jar for conf in confs for jar in ensure_jars(conf)]
    try:
        (folder / "jars").mkdir(parents=True, exist_ok=True)
        jars = [Path(shutil.copy(jar, folder / "jars")) for jar in found]
        program = folder / "run_checkback.py"
        program.write_text(PROGRAM, "utf-8")
        return Pack(package_zip(folder, commit), program, jars)
    except OSError as error:
        raise PrerequisiteError(
            f"{folder} can't be written: {error.strerror or error}.",
            remedy="Name another folder.",
            folder=str(folder),
        ) from error
