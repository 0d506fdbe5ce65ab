"""Sends the finals of plain committed halves without making Python objects of them.

This is the fast way, for the ordinary case only. The rest of the sink sends the other finals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from confluent_kafka import KafkaError

from checkback.sinks.kafka.read.record_reader import LOOKUP_CONSUMER, REPORTS_END
from checkback.sinks.kafka.transaction.producer import MarkedProducer
from checkback.sinks.ledger.notes import (
    NOTED_HEADERS,
    HeaderCollectingReader,
    TransactionNames,
    names_of,
)
from checkback.sinks.lookups import Lookup
from checkback.sinks.native.clients import (
    Bools,
    ForwardProgress,
    Ints,
    NativeReader,
    NativeSender,
    SendTarget,
    StopReason,
    native_notes,
)
from checkback.sinks.native.library import Native
from checkback.sinks.records.router import FindTopic
from checkback.state.formats.outcome import REST_UNKNOWN


class NativeHalfReader(NativeReader):
    """A reader that keeps its consumer and its position between calls, and finds names, too."""

    def __init__(self, native: Native, connection: Mapping[str, Any], topic: str) -> None:
        super().__init__(native, {**LOOKUP_CONSUMER, **REPORTS_END, **connection}, topic)

    def names(self, partition: int, offsets: Ints) -> TransactionNames:
        """Return the names in the records; `forward` says what may be raised."""
        return self.forward_noting(partition, offsets, np.zeros(len(offsets), dtype=bool))

    def forward_noting(
        self, partition: int, offsets: Ints, left: Bools, sending: SendTarget | None = None
    ) -> TransactionNames:
        """Do as `forward`, and return the names in the records."""
        with native_notes(self.native, NOTED_HEADERS, len(offsets)) as notes:
            self.forward(partition, offsets, left, sending, notes)
            notes.end()
            return names_of(notes)


@dataclass(slots=True)
class NativeFinals:
    """Sends finals in one transaction.

    Args:
        noting: takes, for the ledger, the names of all records of the partitions that are read.
    """

    forwarder: NativeHalfReader
    producer: MarkedProducer
    sender: NativeSender
    noting: HeaderCollectingReader | None = None

    def forward(self, lookup: Lookup, find_topic: FindTopic) -> Bools:
        """Send the finals of committed halves, and return which of them are left to do.

        Returns:
            bool[n].

        Raises:
            BrokerError: the half topic can't be read.
            RejectedOutputError, ProducerLostError: as MarkedProducer.send.
        """

        def on_stop(why: StopReason, progress: ForwardProgress) -> None:
            match why:
                case StopReason.FULL:
                    self.producer.make_room()
                case StopReason.TOPIC_UNKNOWN:
                    name = progress.text_bytes
                    self.sender.add_topic(name, find_topic(name.decode("utf-8", "replace")))
                case _:
                    self.producer.raise_not_queued(
                        progress.text_bytes.decode(), KafkaError(progress.code)
                    )

        partition, offsets = lookup.partition, lookup.offset
        if self.noting is None:
            left = np.ones(len(offsets), dtype=bool)
            sending = SendTarget(self.sender, lookup.identity, on_stop)
            self.forwarder.forward(partition, offsets, left, sending)
            return left
        every = self.noting.wanted[partition]
        is_asked = np.isin(every, offsets, assume_unique=True)
        left = is_asked.copy()
        decided = np.full((len(every), 2), REST_UNKNOWN, np.int64)
        decided[is_asked] = lookup.identity
        sending = SendTarget(self.sender, decided, on_stop)
        names = self.forwarder.forward_noting(partition, every, left, sending)
        self.noting.keep(partition, names)
        return left[is_asked]
