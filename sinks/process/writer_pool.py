"""The writers of a sink process, one per state partition, and the clients that they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka.admin import AdminClient

from checkback.sinks.kafka.cluster.topic_directory import TopicDirectory
from checkback.sinks.kafka.read.record_reader import RecordReader
from checkback.sinks.ledger.notes import HeaderCollectingReader
from checkback.sinks.ledger.rows import LedgerBatch, packed, write_noting
from checkback.sinks.native.finals import NativeHalfReader
from checkback.sinks.native.library import native
from checkback.sinks.partition.writer import BatchWriter
from checkback.sinks.report import BatchReport
from checkback.sinks.settings import SinkSettings
from checkback.state import Outcome


class WriteRequest(NamedTuple):
    """One state partition's part of one batch.

    Args:
        is_native: whether the compiled part may be used; not after a process ended over it.
    """

    settings: SinkSettings
    state_partition: int
    batch_id: int
    outcomes: list[bytes]
    is_native: bool = True


class WriteAnswer(NamedTuple):
    """The answer to a request: the report and the packed ledger rows."""

    report: BatchReport
    ledger: list[bytes]


@dataclass(slots=True)
class Writers:
    """Writers by job and state partition; made when first asked for, kept from batch to batch."""

    _writers: dict[tuple[str, int, int], BatchWriter] = field(default_factory=dict)
    _readers: dict[tuple[str, str], RecordReader] = field(default_factory=dict)
    _forwarders: dict[str, NativeHalfReader] = field(default_factory=dict)
    _directories: dict[str, TopicDirectory] = field(default_factory=dict)

    def write(self, request: WriteRequest) -> WriteAnswer:
        """Write what is asked for unless it is written. BatchWriter.write says what it raises."""
        try:
            return self._write(request)
        finally:
            readers: list[RecordReader | NativeHalfReader] = [*self._readers.values()]
            for reader in (*readers, *self._forwarders.values()):
                reader.rest()

    def _write(self, request: WriteRequest) -> WriteAnswer:
        writer = self._writer(request.settings, request.state_partition)
        writer.is_native = request.is_native
        outcomes = [Outcome.unpack(blob) for blob in request.outcomes]
        if request.settings.pipeline.ledger:
            answer = self._write_for_ledger(writer, outcomes, request)
        else:
            answer = WriteAnswer(writer.write(outcomes, request.batch_id), [])
        answer.report.drop_small_groups()
        return answer

    def _write_for_ledger(
        self, writer: BatchWriter, outcomes: Sequence[Outcome], request: WriteRequest
    ) -> WriteAnswer:
        settings = request.settings

        def write(
            decided: Sequence[Outcome], half: HeaderCollectingReader, op: HeaderCollectingReader
        ) -> BatchReport:
            writer.halves, writer.ops = half, op
            return writer.write(decided, request.batch_id)

        halves = self._reader(settings, settings.topics.half)
        ops = self._reader(settings, settings.topics.op)
        batch = LedgerBatch(settings.query_id, request.batch_id)
        forwarder = writer.forwarder if writer.is_native else None
        find_names = None if forwarder is None else forwarder.names
        report, rows = write_noting(outcomes, batch, halves, ops, write, find_names)
        return WriteAnswer(report, list(packed(rows)))

    def _writer(self, settings: SinkSettings, state_partition: int) -> BatchWriter:
        key = (settings.query_id, settings.epoch, state_partition)
        if key not in self._writers:
            self._writers[key] = BatchWriter(
                settings,
                state_partition,
                self._reader(settings, settings.topics.half),
                self._reader(settings, settings.topics.op),
                self._directory(settings),
                self._forwarder(settings),
            )
        return self._writers[key]

    def _reader(self, settings: SinkSettings, topic: str) -> RecordReader:
        return self._readers.setdefault(
            (settings.query_id, topic), RecordReader(dict(settings.connection), topic)
        )

    def _forwarder(self, settings: SinkSettings) -> NativeHalfReader | None:
        found = native() if settings.pipeline.native_sink else None
        if found is None:
            return None
        return self._forwarders.setdefault(
            settings.query_id,
            NativeHalfReader(found, settings.connection, settings.topics.half),
        )

    def _directory(self, settings: SinkSettings) -> TopicDirectory:
        if settings.query_id not in self._directories:
            admin = AdminClient({**settings.connection})
            self._directories[settings.query_id] = TopicDirectory(admin)
        return self._directories[settings.query_id]
