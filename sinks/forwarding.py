"""Forwarding: sending the finals of plain committed halves without making Python objects of them.

It is the fast way of the ordinary case, and only that: what it leaves, the rest of the sink does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from confluent_kafka import KafkaError

from checkback.sinks.ledger_notes import NOTED_HEADERS, Names, NotingReader, names_of
from checkback.sinks.lookup import LOOKUP_CONSUMER
from checkback.sinks.native import Native
from checkback.sinks.native_clients import (
    Bools,
    Ints,
    NativeReader,
    NativeSender,
    Progress,
    Sending,
    Stop,
    native_notes,
)
from checkback.sinks.real_topics import KnownTopic
from checkback.sinks.transaction import MarkedProducer

FindTopic = Callable[[str], KnownTopic | None]


@dataclass(slots=True)
class Forwarder:
    """Reads one topic natively; keeps its consumer and its position between calls.

    Args:
        connection: librdkafka settings that reach the brokers.
        topic: the half topic.
        native: the compiled part.
    """

    connection: dict[str, Any]
    topic: str
    native: Native
    _reader: NativeReader | None = None

    @property
    def reader(self) -> NativeReader:
        """The consumer; made when it is first asked for.

        Raises:
            BrokerError: librdkafka does not take the settings.
        """
        if self._reader is None:
            settings = {**LOOKUP_CONSUMER, **self.connection}
            self._reader = NativeReader(self.native, settings, self.topic)
        return self._reader

    def close(self) -> None:
        """Give the connection up."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def names(self, partition: int, offsets: Ints) -> Names:
        """Return whom records speak of; see NativeReader.forward for what may be raised."""
        return self.forward(partition, offsets, np.zeros(len(offsets), dtype=bool))

    def forward(
        self, partition: int, offsets: Ints, left: Bools, sending: Sending | None = None
    ) -> Names:
        """Do as NativeReader.forward, and return whom the records speak of."""
        with native_notes(self.native, NOTED_HEADERS, len(offsets)) as notes:
            self.reader.forward(partition, offsets, left, sending, notes)
            notes.end()
            return names_of(notes)


@dataclass(slots=True)
class Forwarding:
    """Forwarding in one transaction.

    Args:
        forwarder: reads the half topic.
        producer: whose transaction is open.
        sender: the same producer's.
        noting: takes the names of all records of the partitions that are read, for the ledger.
    """

    forwarder: Forwarder
    producer: MarkedProducer
    sender: NativeSender
    noting: NotingReader | None = None

    def forward(self, partition: int, offsets: Ints, find_topic: FindTopic) -> Bools:
        """Send the finals of committed halves, and return which of them are left to do.

        Args:
            partition: of the half topic.
            offsets: int64[n], ascending, without repeats.
            find_topic: what is known of a real topic; None for one that is left to Python.

        Returns:
            bool[n].

        Raises:
            BrokerError: the half topic can't be read.
            RejectedOutputError, ProducerLostError: as MarkedProducer.send.
        """

        def deal_with(why: Stop, progress: Progress) -> None:
            match why:
                case Stop.FULL:
                    self.producer.make_room()
                case Stop.TOPIC_UNKNOWN:
                    name = progress.said
                    self.sender.add_topic(name, find_topic(name.decode("utf-8", "replace")))
                case _:
                    self.producer.refuse(progress.said.decode(), KafkaError(progress.code))

        sending = Sending(self.sender, deal_with)
        if self.noting is None:
            left = np.ones(len(offsets), dtype=bool)
            self.forwarder.reader.forward(partition, offsets, left, sending)
            return left
        every = self.noting.wanted[partition]
        is_asked = np.isin(every, offsets, assume_unique=True)
        left = is_asked.copy()
        self.noting.keep(partition, self.forwarder.forward(partition, every, left, sending))
        return left[is_asked]
