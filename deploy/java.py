"""Finds a Java that Spark and Kafka run on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from checkback.protocol.errors import PrerequisiteError

JAVA_VERSION_LEAST: Final = 17
"""Spark 4 and Kafka 4 both need Java 17 or later."""

_REMEDY: Final = (
    f"Install Java {JAVA_VERSION_LEAST} or later (for example the package"
    f" openjdk-{JAVA_VERSION_LEAST}-jre-headless), or set JAVA_HOME to one."
)


def find_java() -> Path:
    """Return the java program of JAVA_HOME, else the one on PATH.

    Raises:
        PrerequisiteError: there is no Java, it does not run, or it is older than Java 17.
    """
    java = _locate()
    version = java_version(java)
    if version < JAVA_VERSION_LEAST:
        raise PrerequisiteError(
            f"The Java at {java} is version {version}, too old for Spark and Kafka.",
            remedy=_REMEDY,
            java=str(java),
            version=version,
        )
    return java


def _locate() -> Path:
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not os.access(java, os.X_OK):
            raise PrerequisiteError(f"JAVA_HOME is {home}, which contains no Java.", remedy=_REMEDY)
        return java
    found = shutil.which("java")
    if found is None:
        raise PrerequisiteError("Java is not installed.", remedy=_REMEDY)
    return Path(found)


def java_version(java: Path) -> int:
    """Return the feature version that a java program reports: 8, 11, 17, 21.

    Raises:
        PrerequisiteError: the program does not run or reports no version.
    """
    try:
        ran = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise PrerequisiteError(
            f"The Java at {java} does not run.", remedy=_REMEDY, java=str(java)
        ) from error
    match = re.search(r'version "(?:1\.)?(\d+)', ran.stderr + ran.stdout)
    if match is None:
        raise PrerequisiteError(f"The Java at {java} reports no version.", remedy=_REMEDY)
    return int(match[1])
