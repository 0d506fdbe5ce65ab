"""Writes one state partition's output of one batch exactly once.

docs/guarantees.md numbers the steps of a batch and says what a crash between two of them leaves;
the comments "Step N" here have the same numbers. A batch that is too large for one transaction is
written in several (sinks/partition/parts.py): steps 7 to 9 repeat, and the marker counts the rows.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Final

from checkback.protocol.errors import BrokerError, CheckpointError
from checkback.sinks.kafka.cluster.topic_directory import TopicDirectory
from checkback.sinks.kafka.read.record_reader import RecordSource
from checkback.sinks.kafka.transaction.errors import (
    ProducerLostError,
    RejectedOutputError,
    explain_loss,
)
from checkback.sinks.kafka.transaction.marker import Marker
from checkback.sinks.kafka.transaction.producer import MarkedProducer
from checkback.sinks.ledger.notes import HeaderCollectingReader
from checkback.sinks.native.clients import native_sender
from checkback.sinks.native.finals import NativeFinals, NativeHalfReader
from checkback.sinks.partition.parts import BatchPart, parts_of
from checkback.sinks.partition.records_to_send import BatchOutputs
from checkback.sinks.partition.rejections import KnownRejections
from checkback.sinks.report import BatchReport, report_of
from checkback.sinks.settings import SinkSettings
from checkback.state import Outcome

_log = logging.getLogger(__name__)

TRIES: Final = 1_000
"""Each rejected try shows one thing more, at least that a topic has to be closed."""
LOST_TRIES: Final = 3
SLOWER: Final = 10
"""After a transaction that outlived its timeout, the next ones have a tenth of its rows. How large
bodies are shows only when they are read."""
SLOWEST: Final = 100
"""No transaction gets smaller than a hundredth."""


@dataclass(slots=True)
class BatchWriter:
    """The sink of one state partition in one worker process; kept from batch to batch.

    Args:
        forwarder: reads the half topic for plain finals; None where the compiled part is not to be
            used.
        is_native: whether the compiled part may be used for the next batch.
    """

    settings: SinkSettings
    state_partition: int
    halves: RecordSource
    ops: RecordSource
    directory: TopicDirectory
    forwarder: NativeHalfReader | None = None
    is_native: bool = True
    _producer: MarkedProducer | None = None
    _known: KnownRejections = field(default_factory=KnownRejections)
    _begun_s: float | None = None
    _last_batch: int = -1
    _tries: int = 0
    _has_stumbled: bool = False
    _lost: int = 0
    _in_parts: BatchReport | None = None
    _slowness: int = 1

    def write(self, outcomes: Sequence[Outcome], batch_id: int) -> BatchReport:
        """Write the batch unless its marker says that it is written.

        Returns:
            What was decided and done.

        Raises:
            CheckpointError: the marker is gone, or not what this start can have left.
            FencedError: another job writes for the same state partition.
            BrokerError: Kafka did not take what it must take.
        """
        self._known = KnownRejections(tracks_each_record=self._has_stumbled)
        self.directory.allow_refresh()
        self._lost, self._in_parts = 0, None
        for self._tries in range(1, TRIES + 1):
            try:
                written = self._try(outcomes, batch_id)
            except RejectedOutputError as rejected:
                # When this producer aborted and went on, the broker refused its next sequence
                # numbers.
                self.close()
                _log.info("Kafka rejected records; trying without them")
                self._known.learn(rejected.rejections, self.settings.topics, self.directory)
            except ProducerLostError as error:
                self.close()
                _log.warning("The producer is lost, trying again: %s", error)
                self.directory.allow_refresh()  # hours may have passed
                self._known.tracks_each_record |= error.was_rejected
                self._lost += 1
                open_ms = self._open_ms()
                if self._lost == LOST_TRIES:
                    raise explain_loss(error, self.settings, batch_id, open_ms) from error
                if open_ms >= self.settings.transaction_timeout_ms:
                    self._slowness = min(self._slowness * SLOWER, SLOWEST)
            else:
                # The next batch is likely to, as well.
                self._has_stumbled = self._tries > 1 or _is_refusing(self._known, written)
                return written
        raise BrokerError(
            f"Kafka rejected batch {batch_id} of state partition {self.state_partition} "
            f"{TRIES} times.",
            remedy="Look into the broker's log for the reason.",
        )

    def close(self) -> None:
        """Close the producer; the next batch opens another one."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def _try(self, outcomes: Sequence[Outcome], batch_id: int) -> BatchReport:
        # Each try counts again what the sink does, on top of what the pages decided and what the
        # parts before did.
        report = deepcopy(self._in_parts) or report_of(self.state_partition, outcomes)
        self._begun_s = None
        # Step 5: initialise a producer, unless one is kept from the batch before.
        producer = self._open(batch_id)
        producer.is_patient = self._lost > 0
        # Step 6: is the batch written?
        marker, now_ms = producer.marker, int(time.time() * 1_000)
        if marker is not None and marker.next_batch > batch_id:
            report.skipped = True
            return report
        has_output = any(len(outcome.action) for outcome in outcomes)
        if not has_output and marker is not None and not marker.is_due_for_renewal(now_ms):
            return report
        outputs = self._outputs(producer, report, now_ms)
        producer.tracks_records = self._known.tracks_each_record
        rows_done = rows_written(marker, batch_id)
        rows_max = max(1, self.settings.transaction_rows_max // self._slowness)
        with self._forwarding(producer, outputs.report) as outputs.forwarding:
            for part in parts_of(outcomes, rows_done, rows_max):
                self._write_part(producer, outputs, part, batch_id)
                if producer.is_spent and not part.is_last:
                    break
            else:
                return outputs.report
        # A commit may have been sent twice: another producer writes the parts that follow.
        return self._try(outcomes, batch_id)

    def _write_part(
        self, producer: MarkedProducer, outputs: BatchOutputs, part: BatchPart, batch_id: int
    ) -> None:
        # Step 7: finals, checks, discarded and refused records, then the settled marks.
        producer.begin()
        self._begun_s = time.monotonic()
        for output in outputs.records_for(part.outcomes, batch_id, self.state_partition):
            producer.send(output)
        # Steps 8 and 9: move the marker once Kafka has acknowledged all, and commit.
        if part.is_last:
            producer.commit(batch_id, outputs.now_ms)
            return
        producer.commit_part(batch_id, part.rows_done, outputs.now_ms)
        self._lost, self._in_parts = 0, deepcopy(outputs.report)

    @contextmanager
    def _forwarding(
        self, producer: MarkedProducer, report: BatchReport
    ) -> Iterator[NativeFinals | None]:
        # Kafka does not say which of the forwarded finals it rejected: only the commit fails. The
        # next try sends them in Python, and learns which they were.
        if (
            self.forwarder is None
            or not self.is_native
            or self._tries > 1
            or self._known.tracks_each_record
        ):
            if self.settings.pipeline.native_sink:
                report.counts["native_fallbacks"] += 1
            yield None
            return
        noting = self.halves if isinstance(self.halves, HeaderCollectingReader) else None
        with native_sender(self.forwarder.native, producer.client) as sender:
            yield NativeFinals(self.forwarder, producer, sender, noting)

    def _open_ms(self) -> int:
        begun_s = self._begun_s
        return 0 if begun_s is None else int((time.monotonic() - begun_s) * 1_000)

    def _outputs(self, producer: MarkedProducer, report: BatchReport, now_ms: int) -> BatchOutputs:
        return BatchOutputs(
            self.settings,
            self.halves,
            self.ops,
            self.directory,
            self._known,
            producer.flush,
            report,
            now_ms,
        )

    def _open(self, batch_id: int) -> MarkedProducer:
        # A writer of the batch before need not look: if it has a successor, its commit will fail.
        is_next = batch_id == self._last_batch + 1
        kept = self._producer
        if kept is not None and (
            (not is_next and kept.is_superseded(batch_id))
            # A try ended between two parts; another process may have written the other parts since.
            or (kept.marker is not None and kept.marker.rows_done > 0)
            or kept.is_spent
        ):
            self.close()
        self._last_batch = batch_id
        if self._producer is None:
            native = None if self.forwarder is None else self.forwarder.native
            self._producer = MarkedProducer(self.settings, self.state_partition, native)
        self._require_own(self._producer.marker, batch_id)
        return self._producer

    def _require_own(self, marker: Marker | None, batch_id: int) -> None:
        """Refuse a marker that this start can't have written."""
        own = self.settings.epoch
        if marker is None:
            # Every start writes all markers before its first batch.
            wrong = "is gone" if own or batch_id else ""
        elif marker.is_by_hand:
            wrong = "was set by hand"
        elif marker.epoch != own:
            wrong = f"is of epoch {marker.epoch}, this start's is {own},"
        elif marker.next_batch > batch_id + 1:
            wrong = f"is past batch {marker.next_batch - 1}"
        elif marker.rows_done and marker.next_batch < batch_id:
            wrong = f"says that batch {marker.next_batch} is written in part only"
        else:
            return
        if wrong:
            raise CheckpointError(
                f"The marker of state partition {self.state_partition} {wrong} before batch "
                f"{batch_id}: whether that batch was written can't be known.",
                remedy="Run `checkback checkpoint rebuild`; see `checkback docs recovering`.",
                state_partition=self.state_partition,
                batch_id=batch_id,
            )


def rows_written(marker: Marker | None, batch_id: int) -> int:
    """Return how many rows of a batch are written; the batch is not written completely."""
    return 0 if marker is None or marker.next_batch != batch_id else marker.rows_done


def _is_refusing(known: KnownRejections, written: BatchReport) -> bool:
    """Return whether a batch that was measured would have been rejected otherwise."""
    return known.tracks_each_record and bool(written.counts["finals_refused"])
