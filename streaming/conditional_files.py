"""Has Spark write a checkpoint on S3 by one conditional request for each file.

Spark's own ways rename a draft. On S3 that is a copy, which replaces what another driver wrote a
moment ago, and six requests more. ``ConditionalFileManager.java`` writes in place, and what must be
new only if there is nothing yet. The compiler that Spark ships makes its classes when a driver
starts, so it needs no Java compiler and fits the Spark that is there.
"""

from __future__ import annotations

import tempfile
import zipfile
from importlib import resources
from pathlib import Path
from typing import Any, Final

FILE_MANAGER: Final = "spark.sql.streaming.checkpointFileManagerClass"
CONDITIONAL_MANAGER: Final = "checkback.ConditionalFileManager"
SOURCE: Final = "ConditionalFileManager.java"
SCHEME: Final = "s3a://"


def is_on_s3(path: str) -> bool:
    """Return whether a folder is on S3, as Hadoop reaches it."""
    return path.startswith(SCHEME)


def add_conditional_files(jvm: Any, chosen: dict[str, str]) -> None:
    """Give driver and executors the classes, and let Spark write checkpoints by them.

    Args:
        jvm: py4j's view of the driver's JVM, without a session yet.
        chosen: the session's settings, which are added to; a file manager of the user's stays.
    """
    if FILE_MANAGER in chosen:
        return
    jar = compiled_jar(jvm, Path(tempfile.mkdtemp(prefix="checkback-files-")))
    jvm.Thread.currentThread().getContextClassLoader().addURL(
        jvm.java.io.File(str(jar)).toURI().toURL()
    )
    chosen["spark.jars"] = ",".join(filter(None, (chosen.get("spark.jars"), str(jar))))
    chosen[FILE_MANAGER] = CONDITIONAL_MANAGER


def compiled_jar(jvm: Any, folder: Path) -> Path:
    """Compile the classes and return the jar with them.

    Args:
        jvm: py4j's view of a JVM that has Spark.
        folder: folder for the jar.
    """
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    source = resources.files("checkback.streaming").joinpath(SOURCE).read_text("utf-8")
    compiler.cook(source)
    jar = folder / "checkback-files.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for name, code in compiler.getBytecodes().items():
            archive.writestr(f"{name.replace('.', '/')}.class", bytes(code))
    return jar
