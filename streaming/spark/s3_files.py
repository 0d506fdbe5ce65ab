"""Makes Spark write each file of a checkpoint on S3 by one conditional request.

Spark's own ways rename a draft. On S3 a rename is a copy: it replaces a file that another driver
wrote a moment ago, and costs six more requests. ``ConditionalFileManager.java`` writes in place,
and writes a file that must be new only if there is none yet.
"""

from __future__ import annotations

from typing import Any, Final

from checkback.checkpoints.spark_internals import FILE_MANAGER
from checkback.streaming.spark.java_classes import PACKAGE, add_to_driver, classes_jar

CONDITIONAL_MANAGER: Final = f"{PACKAGE}.ConditionalFileManager"
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
    jar = classes_jar(jvm)
    add_to_driver(jvm, jar)
    chosen["spark.jars"] = ",".join(filter(None, (chosen.get("spark.jars"), str(jar))))
    chosen[FILE_MANAGER] = CONDITIONAL_MANAGER
