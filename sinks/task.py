"""The sink as Spark runs it: one task per state partition and batch.

What is expensive to make (producers, consumers) is kept in this module, which a Python worker
imports once; the function that travels with each batch holds nothing but the settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pyarrow as pa
from confluent_kafka.admin import AdminClient
from pyspark import TaskContext

from checkback.protocol.errors import OperationalError
from checkback.sinks.ledger_rows import Batch, packed, write_noting
from checkback.sinks.lookup import RecordReader, RecordSource
from checkback.sinks.real_topics import TopicDirectory
from checkback.sinks.report import BatchReport
from checkback.sinks.settings import SinkSettings
from checkback.sinks.writer import BatchWriter
from checkback.state import Outcome

REPORT_SCHEMA: Final = "report string, ledger binary"
_ARROW_REPORT: Final = pa.schema([("report", pa.string()), ("ledger", pa.binary())])

_WRITERS: dict[tuple[str, int], BatchWriter] = {}
_READERS: dict[tuple[str, str], RecordReader] = {}
_DIRECTORIES: dict[str, TopicDirectory] = {}

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
    """Write the outcomes of this task's state partition.

    All input is taken before anything is written: a half-read input leaves the state uncommitted
    (STATE_STORE_COMMIT_VALIDATION), also when the batch turns out to be written already.
    """
    outcomes = [
        Outcome.unpack(blob.as_py()) for batch in batches for blob in batch.column("outcome")
    ]
    context = TaskContext.get()
    if context is None:
        raise OperationalError("The sink runs inside Spark tasks only.")
    writer = _writer(settings, context.partitionId())
    blobs: list[bytes] = []
    if settings.keeps_ledger:
        report, blobs = _write_for_ledger(writer, outcomes, batch_id, first_batch)
    else:
        report = writer.write(outcomes, batch_id, first_batch)
    yield _row(report.to_json(), blobs[0] if blobs else None)
    for blob in blobs[1:]:
        yield _row(None, blob)


def _write_for_ledger(
    writer: BatchWriter, outcomes: Sequence[Outcome], batch_id: int, first_batch: int
) -> tuple[BatchReport, list[bytes]]:
    settings = writer.settings

    def write(decided: Sequence[Outcome], halves: RecordSource, ops: RecordSource) -> BatchReport:
        writer.halves, writer.ops = halves, ops
        return writer.write(decided, batch_id, first_batch)

    halves, ops = (_reader(settings, topic) for topic in (settings.topics.half, settings.topics.op))
    report, rows = write_noting(outcomes, Batch(settings.query_id, batch_id), halves, ops, write)
    return report, list(packed(rows))


def _row(report: str | None, blob: bytes | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"report": report, "ledger": blob}], schema=_ARROW_REPORT)


def _writer(settings: SinkSettings, state_partition: int) -> BatchWriter:
    key = (settings.query_id, state_partition)
    writer = _WRITERS.get(key)
    if writer is None:
        names = settings.topics
        writer = BatchWriter(
            settings,
            state_partition,
            _reader(settings, names.half),
            _reader(settings, names.op),
            _directory(settings),
        )
        _WRITERS[key] = writer
    return writer


def _reader(settings: SinkSettings, topic: str) -> RecordReader:
    return _READERS.setdefault(
        (settings.query_id, topic), RecordReader(dict(settings.connection), topic)
    )


def _directory(settings: SinkSettings) -> TopicDirectory:
    if settings.query_id not in _DIRECTORIES:
        _DIRECTORIES[settings.query_id] = TopicDirectory(AdminClient(dict(settings.connection)))
    return _DIRECTORIES[settings.query_id]
