"""Classes of ours in Java, which Spark's own compiler makes when a driver first starts.

So no Java compiler is needed, and the classes fit the installed Spark. Those that decode are kept
beside Spark's jars, since each start needs them and makes them in half a second to two.
"""

from __future__ import annotations

import hashlib
import secrets
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from checkback.streaming.jars_folder import jars_folder, kept_file, kept_name
from checkback.streaming.temporary_folders import temporary_folder

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

PACKAGE: Final = "checkback"
DECODING: Final = (
    "PageKeys", "RecordHeaders", "EventIdentity", "KafkaRecord", "OpPageBound", "SignedRecord",
    "RecordVerifier", "RecordDecoder",
)  # fmt: skip
"""The classes that the query calls; they know each other."""
SOURCE: Final = "org.codehaus.commons.compiler.util.resource.Resource"
"""What Spark's compiler, Janino, takes sources as."""


def compiled_jar(jvm: Any, *names: str) -> Path:
    """Compile classes with those nested in them, and return the jar with them.

    Args:
        jvm: py4j's view of a JVM that has Spark.
        names: of the classes; their sources are beside this module.
    """
    resource = jvm.org.codehaus.commons.compiler.util.resource
    compiler = jvm.org.codehaus.janino.Compiler()
    # Spark's classes, without any of ours that an earlier call has made.
    known = compiler.getClass().getClassLoader()
    kind = jvm.java.lang.Class.forName(SOURCE, True, known)
    sources = jvm.java.lang.reflect.Array.newInstance(kind, len(names))
    for at, name in enumerate(names):
        sources[at] = resource.StringResource(f"{PACKAGE}/{name}.java", _source(name))
    made = jvm.java.util.HashMap()
    compiler.setIClassLoader(jvm.org.codehaus.janino.ClassLoaderIClassLoader(known))
    compiler.setClassFileCreator(resource.MapResourceCreator(made))
    compiler.compile(sources)
    jar = temporary_folder("classes") / f"checkback-{names[-1]}.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for path, code in made.items():
            archive.writestr(path, bytes(code))
    return jar


def decoding_jar(jvm: Any) -> Path:
    """Return the jar of DECODING for this Spark, compiled unless one is kept.

    Its name says what it was made of.
    """
    made_of = hashlib.sha256(jvm.org.apache.spark.package.SPARK_VERSION().encode())
    for name in DECODING:
        made_of.update(_source(name).encode())
    prefix = f"decoding-{made_of.hexdigest()[:16]}-"
    return kept_file(prefix, ".jar") or _kept(compiled_jar(jvm, *DECODING), prefix)


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


def _source(name: str) -> str:
    return resources.files("checkback.streaming").joinpath(f"{name}.java").read_text("utf-8")


def java_class(spark: SparkSession, name: str) -> Any:
    """Return one of DECODING, which driver and executors of a session have from now on."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - no public way to classes
    # Imported late: the console, which reads checkpoints too, has no Spark.
    from py4j.java_gateway import JavaClass

    found = getattr(getattr(jvm, PACKAGE), name)
    if isinstance(found, JavaClass):
        return found
    jar = decoding_jar(jvm)
    add_to_driver(jvm, jar)
    spark.sparkContext._jsc.sc().addJar(str(jar))  # noqa: SLF001 - as above
    return getattr(getattr(jvm, PACKAGE), name)


def add_to_driver(jvm: Any, jar: Path) -> None:
    """Let the driver find the classes of a jar."""
    jvm.Thread.currentThread().getContextClassLoader().addURL(
        jvm.java.io.File(str(jar)).toURI().toURL()
    )


def call_for_rows(
    spark: SparkSession, made: Any, method: str, returned: str, arguments: Sequence[Column]
) -> Column:
    """Return the answers of an object of ours that Spark's compiled loop over rows calls.

    Spark calls it once for each row: it takes nothing for granted about what the object answers,
    so it neither repeats a call nor moves a condition in front of it.

    Args:
        spark: the session.
        made: the object; each task has a copy of its own.
        method: returns what the next argument says.
        returned: Spark's name of a type; the columns of a row, where it is one. It may be null.
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
        sql.types.DataType.fromDDL(returned),
        to_seq([expressions.expression(_java(one)) for one in arguments]),
        to_seq([]),
        False,  # its arguments may be null
        True,  # its answer, too
        False,  # it is not deterministic, as far as Spark has to know
    )
    return Column(expressions.column(called))


def _java(column: Any) -> Any:
    return column._jc  # noqa: SLF001 - as above
