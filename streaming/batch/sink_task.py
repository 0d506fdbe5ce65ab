"""The sink's Spark tasks: one per state partition and batch; each calls a sink process."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, StructField, StructType

from checkback.protocol.errors import OperationalError
from checkback.sinks.process.client import SinkProcess
from checkback.sinks.process.writer_pool import WriteRequest
from checkback.sinks.settings import SinkSettings
from checkback.streaming.spark.python_workers import keep_modules

REPORT_TYPE: Final = StructType(
    [StructField("report", BinaryType()), StructField("ledger", BinaryType())]
)
"""Not a text schema, which Spark would parse in every batch."""
_ARROW_REPORT: Final = pa.schema([("report", pa.binary()), ("ledger", pa.binary())])

ArrowBatches = Iterator[pa.RecordBatch]


def sink_function(settings: SinkSettings, batch_id: int) -> Callable[[ArrowBatches], ArrowBatches]:
    """Return the function for mapInArrow that writes one batch.

    The function takes rows with a binary column ``outcome``. It returns a row with a pickled
    BatchReport and the task's ledger rows, packed by sinks.ledger.rows; more ledger rows follow in
    rows of their own.
    """

    def write(batches: ArrowBatches) -> ArrowBatches:
        return write_partition(settings, batch_id, batches)

    return write


def write_partition(settings: SinkSettings, batch_id: int, batches: ArrowBatches) -> ArrowBatches:
    """Let a sink process write the outcomes of this task's state partition.

    The task reads all input before it writes anything, because an input that is read only in part
    leaves the state uncommitted (STATE_STORE_COMMIT_VALIDATION). That also holds if the batch is
    already written.
    """
    keep_modules()
    outcomes = [blob.as_py() for batch in batches for blob in batch.column("outcome")]
    context = TaskContext.get()
    if context is None:
        raise OperationalError("The sink runs inside Spark tasks only.")
    state_partition = context.partitionId()
    # Step 5: ask the sink to write them.
    request = WriteRequest(settings, state_partition, batch_id, outcomes)
    answer = SinkProcess.of(state_partition, settings.processes).write(request)
    blobs = answer.ledger
    yield _row(pickle.dumps(answer.report), blobs[0] if blobs else None)
    for blob in blobs[1:]:
        yield _row(None, blob)


def _row(report: bytes | None, blob: bytes | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"report": report, "ledger": blob}], schema=_ARROW_REPORT)
