"""Classes of ours in Java, which Spark's own compiler makes when a driver starts.

So no Java compiler is needed, and the classes fit the installed Spark.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from checkback.streaming.temporary_folders import temporary_folder

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

PACKAGE: Final = "checkback"


def compiled_jar(jvm: Any, name: str) -> Path:
    """Compile a class with those nested in it, and return the jar with them.

    Args:
        jvm: py4j's view of a JVM that has Spark.
        name: of the class; its source is beside this module.
    """
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    source = resources.files("checkback.streaming").joinpath(f"{name}.java").read_text("utf-8")
    compiler.cook(source)
    jar = temporary_folder("classes") / f"checkback-{name}.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for one, code in compiler.getBytecodes().items():
            archive.writestr(f"{one.replace('.', '/')}.class", bytes(code))
    return jar


def java_class(spark: SparkSession, name: str) -> Any:
    """Return a class of ours that the driver and all executors of a session have from now on."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - no public way to classes
    # Imported late: the console, which reads checkpoints too, has no Spark.
    from py4j.java_gateway import JavaClass

    found = getattr(getattr(jvm, PACKAGE), name)
    if isinstance(found, JavaClass):
        return found
    jar = compiled_jar(jvm, name)
    add_to_driver(jvm, jar)
    spark.sparkContext._jsc.sc().addJar(str(jar))  # noqa: SLF001 - as above
    return getattr(getattr(jvm, PACKAGE), name)


def add_to_driver(jvm: Any, jar: Path) -> None:
    """Let the driver find the classes of a jar."""
    jvm.Thread.currentThread().getContextClassLoader().addURL(
        jvm.java.io.File(str(jar)).toURI().toURL()
    )


def call_for_rows(
    spark: SparkSession, made: Any, method: str, arguments: Sequence[Column]
) -> Column:
    """Return the answers of an object of ours that Spark's compiled loop over rows calls.

    Args:
        spark: the session.
        made: the object; each task has a copy of its own.
        method: returns an int.
        arguments: of the method, of just the types that it takes.
    """
    # Imported late, as above.
    from pyspark.sql import Column

    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - as above
    sql, catalyst = jvm.org.apache.spark.sql, jvm.org.apache.spark.sql.catalyst.expressions
    to_seq = jvm.org.apache.spark.api.python.PythonUtils.toSeq
    expressions = sql.classic.ExpressionUtils
    called = catalyst.objects.Invoke(
        catalyst.Literal(made, sql.types.ObjectType(made.getClass())),
        method,
        sql.types.DataTypes.IntegerType,
        to_seq([expressions.expression(_java(one)) for one in arguments]),
        to_seq([]),
        False,  # its arguments may be null
        False,  # its answer is not
        True,
    )
    return Column(expressions.column(called))


def _java(column: Any) -> Any:
    return column._jc  # noqa: SLF001 - as above
