"""What Spark's Python workers need so that a batch costs little."""

from __future__ import annotations

import gc
import sys

_modules_kept = 0


def keep_modules() -> None:
    """Take what was imported so far out of the garbage collector's sight.

    Spark's daemon collects the garbage of all generations after every session of a worker
    (pyspark.daemon, `gc.collect`), six times in a batch with two state partitions. With pandas
    and pyarrow loaded that walks several hundred thousand objects, none of which ever goes: two
    thirds of the processor time that the sessions of an empty batch took.
    """
    global _modules_kept
    if len(sys.modules) > _modules_kept:
        _modules_kept = len(sys.modules)
        gc.collect()
        gc.freeze()
