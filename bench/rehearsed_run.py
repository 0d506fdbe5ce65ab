"""``checkback run`` that ends after its JVM: an archive is whole when the JVM has ended."""

from __future__ import annotations

import sys
from typing import Any, Final

from pyspark import SparkContext

from checkback.streaming.commands import main

DUMP_TIMEOUT_S: Final = 120.0


def end_jvm() -> None:
    """Have the JVM end as it does when nobody needs it any more, and wait for that."""
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - pyspark gives no other way to it
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(DUMP_TIMEOUT_S)


if __name__ == "__main__":
    sys.argv.insert(1, "run")
    try:
        main()
    finally:
        end_jvm()
