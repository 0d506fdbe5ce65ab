"""Compiles Checkback's Java classes with Janino, the compiler that Spark ships.

So no Java compiler is needed, and the classes fit the installed Spark. `checkback jars fetch` makes
them in three seconds of a JVM and keeps them beside Spark's jars; a driver that finds none does the
same.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import subprocess
import zipfile
from collections.abc import Callable
from contextlib import suppress
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from checkback.checkpoints.spark_internals import add_jar, jvm_of
from checkback.protocol.errors import OperationalError
from checkback.streaming.spark.jars import jars_folder, kept_file, kept_name, temporary_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGE: Final = "checkback"
COMPILER: Final = "org.codehaus.commons.compiler.samples.CompilerDemo"
COMPILED_WITHIN_S: Final = 300
SPARK_VERSION: Final = re.compile(r"spark-core_[\d.]+-([^/:]+)\.jar")


def java_sources() -> dict[str, str]:
    """Return the sources of all classes, by the names of their files."""
    # Imported late: it takes numpy, which the tools of a release lack. They read the jars' lock.
    from checkback.streaming.spark.java_protocol import protocol_java

    files = resources.files("checkback.streaming.java").iterdir()
    found = {file.name: file.read_text("utf-8") for file in files if file.name.endswith(".java")}
    found["Protocol.java"] = protocol_java()
    return dict(sorted(found.items()))


def compiled_jar(find_java: Callable[[], Path], class_path: str) -> Path:
    """Return the jar of all classes, compiled unless one of these sources and this Spark is kept.

    Args:
        find_java: returns the program; only called where there is something to compile.
        class_path: Spark's jars, a colon between two of them.

    Raises:
        OperationalError: the compiler failed.
    """
    spark = SPARK_VERSION.search(class_path)
    made_of = repr((spark and spark[1], java_sources()))
    prefix = f"classes-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}-"
    return kept_file(prefix, ".jar") or _kept(_compiled(find_java(), class_path), prefix)


def classes_jar(jvm: Any) -> Path:
    """Return the jar of all classes for a running JVM that has Spark."""
    system = jvm.java.lang.System
    java = Path(system.getProperty("java.home")) / "bin" / "java"
    return compiled_jar(lambda: java, system.getProperty("java.class.path"))


def _compiled(java: Path, class_path: str) -> Path:
    with TemporaryDirectory(prefix="checkback-compiling-") as name:
        folder = Path(name)
        sources, classes = [], folder / "classes"
        classes.mkdir()
        for file, text in java_sources().items():
            sources.append(folder / file)
            sources[-1].write_text(text, "utf-8")
        command: list[str | Path] = [
            java, "-XX:TieredStopAtLevel=1", "-cp", class_path, COMPILER,
            "-classpath", class_path, "-encoding", "UTF-8", "-d", classes, *sources,
        ]  # fmt: skip
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=COMPILED_WITHIN_S, check=False
        )
        made = sorted(classes.rglob("*.class"))
        if ran.returncode or not made:
            raise OperationalError(
                f"Checkback's Java classes can't be compiled: {(ran.stdout + ran.stderr)[-500:]}",
                remedy="Check that pyspark is of a version that Checkback is made for.",
            )
        jar = temporary_folder("classes") / "checkback.jar"
        with zipfile.ZipFile(jar, "w") as archive:
            for path in made:
                archive.write(path, path.relative_to(classes))
    return jar


def _kept(jar: Path, prefix: str) -> Path:
    kept = jars_folder() / kept_name(jar, prefix, ".jar")
    # Containers that share the folder have processes of the same number.
    draft = kept.with_suffix(f".{secrets.token_hex(8)}")
    try:
        draft.write_bytes(jar.read_bytes())
        draft.replace(kept)
    except OSError:  # a folder that is full, not there, or only to be read: made at each start
        with suppress(OSError):
            draft.unlink()
        return jar
    return kept


def java_class(spark: SparkSession, name: str) -> Any:
    """Return one of the classes, after adding its jar to driver and executors of a session."""
    jvm = jvm_of(spark)
    # Imported late: the console, which reads checkpoints too, has no Spark.
    from py4j.java_gateway import JavaClass

    found = getattr(getattr(jvm, PACKAGE), name)
    if isinstance(found, JavaClass):
        return found
    jar = classes_jar(jvm)
    add_to_driver(jvm, jar)
    add_jar(spark, jar)
    return getattr(getattr(jvm, PACKAGE), name)


def add_to_driver(jvm: Any, jar: Path) -> None:
    """Let the driver find the classes of a jar."""
    jvm.Thread.currentThread().getContextClassLoader().addURL(
        jvm.java.io.File(str(jar)).toURI().toURL()
    )
