"""``checkback run`` that ends after its JVM: an archive is whole when the JVM has ended."""

from __future__ import annotations

import sys
from typing import Final

from pyspark import SparkContext

from checkback.streaming.commands import main
from checkback.streaming.session import end_jvm

DUMP_TIMEOUT_S: Final = 120.0


if __name__ == "__main__":
    sys.argv.insert(1, "run")
    try:
        main()
    finally:
        gateway = SparkContext._gateway  # noqa: SLF001 - pyspark gives no other way to it
        if gateway is not None:
            end_jvm(gateway, DUMP_TIMEOUT_S)
