"""Whether spark-submit started this process: then jars, master and the JVM are there already."""

from __future__ import annotations

import os


def is_submitted() -> bool:
    """Return whether spark-submit started this process, and with it the driver's JVM."""
    return "PYSPARK_GATEWAY_PORT" in os.environ
