"""The sink as Spark runs it: one task per state partition and batch, which asks a sink process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from checkback.protocol.errors import OperationalError
from checkback.sinks.process_link import SinkProcess
from checkback.sinks.python_worker import keep_modules
from checkback.sinks.settings import SinkSettings
from checkback.sinks.writers import WriteRequest

REPORT_TYPE: Final = StructType(
    [StructField("report", StringType()), StructField("ledger", BinaryType())]
)
"""Not as text, which Spark would parse in every batch."""
_ARROW_REPORT: Final = pa.schema([("report", pa.string()), ("ledger", pa.binary())])

ArrowBatches = Iterator[pa.RecordBatch]


def sink_function(
    settings: SinkSettings, batch_id: int, first_batch: int
) -> Callable[[ArrowBatches], ArrowBatches]:
    """Return the function for mapInArrow that writes one batch.

    It takes rows with a binary column ``outcome`` and gives a row with a BatchReport in JSON, and
    the task's ledger rows, packed by sinks.ledger_rows, beside it and in rows of their own.
    """

    def write(batches: ArrowBatches) -> ArrowBatches:
        return write_partition(settings, batch_id, first_batch, batches)

    return write


def write_partition(
    settings: SinkSettings, batch_id: int, first_batch: int, batches: ArrowBatches
) -> ArrowBatches:
    """Have the outcomes of this task's state partition written.

    All input is taken before anything is written: a half-read input leaves the state uncommitted
    (STATE_STORE_COMMIT_VALIDATION), also when the batch turns out to be written already.
    """
    keep_modules()
    outcomes = [blob.as_py() for batch in batches for blob in batch.column("outcome")]
    context = TaskContext.get()
    if context is None:
        raise OperationalError("The sink runs inside Spark tasks only.")
    state_partition = context.partitionId()
    request = WriteRequest(settings, state_partition, batch_id, first_batch, outcomes)
    answer = SinkProcess.of(state_partition).write(request)
    blobs = answer.ledger
    yield _row(answer.report, blobs[0] if blobs else None)
    for blob in blobs[1:]:
        yield _row(None, blob)


def _row(report: str | None, blob: bytes | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"report": report, "ledger": blob}], schema=_ARROW_REPORT)
