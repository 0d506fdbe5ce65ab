"""How event rows travel to the Python workers: in as few columns as hold them.

A column costs a worker a fifth of a millisecond for every group, however few rows are in it:
PySpark makes a Series of each, and then one frame of all (4.2.0). What is small shares a number.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from checkback.state import PAGE_SIZE_MAX, EventKind, Events

_KIND_BITS: Final = max(EventKind).bit_length()
_SLOT_BITS: Final = (PAGE_SIZE_MAX - 1).bit_length()
DETAIL_MAX: Final = 2 ** (63 - _KIND_BITS - _SLOT_BITS) - 1
"""Half a millennium of immunity time, in milliseconds; a longer time is cut to it."""


def packed(events: DataFrame, page_size: int) -> DataFrame:
    """Return event rows as the workers get them.

    Returns:
        page_key, partition, time_ms, both words of the identity and source_offset as they were, and
        `what` long: from the top the detail, then the half's place in its page (16 bits), then the
        kind (3 bits).
    """
    detail = f.greatest(f.lit(-DETAIL_MAX), f.least(f.lit(DETAIL_MAX), f.col("detail")))
    slot = f.col("offset") % page_size
    what = (
        f.shiftleft(detail, _SLOT_BITS + _KIND_BITS)
        .bitwiseOR(f.shiftleft(slot, _KIND_BITS))
        .bitwiseOR(f.col("kind").cast("long"))
    )
    return events.select(
        "page_key",
        "partition",
        what.alias("what"),
        "time_ms",
        "identity",
        "identity_rest",
        "source_offset",
    )


def events_in(rows: pd.DataFrame | pa.Table) -> Events:
    """Return the events in rows as `decode` makes them."""
    names = ("offset", "time_ms", "identity", "detail", "source_offset", "identity_rest")
    numbers = (rows[name].to_numpy().astype(np.int64) for name in names)
    return Events(rows["kind"].to_numpy().astype(np.uint8), *numbers)


def unpacked(rows: pd.DataFrame, first_offset: int) -> Events:
    """Return the events of one page."""
    what = rows["what"].to_numpy(np.int64)
    slot = what >> _KIND_BITS & 2**_SLOT_BITS - 1
    return Events(
        kind=(what & 2**_KIND_BITS - 1).astype(np.uint8),
        offset=first_offset + slot,
        time_ms=rows["time_ms"].to_numpy(np.int64),
        identity=rows["identity"].to_numpy(np.int64),
        detail=what >> _KIND_BITS + _SLOT_BITS,
        source_offset=rows["source_offset"].to_numpy(np.int64),
        identity_rest=rows["identity_rest"].to_numpy(np.int64),
    )
