"""Forwarding: sending the finals of plain committed halves without making Python objects of them.

It is the fast way of the ordinary case, and only that: what it leaves, the rest of the sink does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from confluent_kafka import KafkaError, TopicPartition
from numpy.typing import NDArray

from checkback.sinks.lookup import (
    LOOKUP_CONSUMER,
    POLL_S,
    RUN_GAP_MAX,
    SILENCE_POLLS_MAX,
    require_passing,
    runs_of,
    silence_error,
)
from checkback.sinks.native import Native, NativeReader, NativeSender, Progress
from checkback.sinks.real_topics import KnownTopic
from checkback.sinks.transaction import MarkedProducer

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
FindTopic = Callable[[str], KnownTopic | None]


class Stop(IntEnum):
    """Why forward.c came back."""

    DONE = 0
    SILENT = 1
    FULL = 2
    TOPIC_UNKNOWN = 3
    READING_FAILED = 4
    SENDING_FAILED = 5


@dataclass(slots=True)
class Forwarder:
    """Reads one topic and sends on; keeps its consumer and its position between calls.

    Args:
        connection: librdkafka settings that reach the brokers.
        topic: the half topic.
        native: the compiled part.
    """

    connection: dict[str, Any]
    topic: str
    native: Native
    _reader: NativeReader | None = None
    _partition: int = -1

    def close(self) -> None:
        """Give the connection up."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
            self._partition = -1

    def reader_at(self, partition: int, offset: int) -> NativeReader:
        """Return the reader, of which the record at an offset or the first behind it is next."""
        if self._reader is None:
            settings = {**LOOKUP_CONSUMER, **self.connection}
            self._reader = self.native.reader(settings, self.topic)
        gap = offset - self._reader.position()
        if partition != self._partition or not 0 <= gap <= RUN_GAP_MAX:
            self._reader.go_to(partition, offset)
        # Until the run is through: one that is given up leaves a record half seen to behind.
        self._partition = -1
        return self._reader

    def stay_at(self, partition: int) -> None:
        """Let the next run go on where this one ended."""
        self._partition = partition


@dataclass(slots=True)
class Forwarding:
    """Forwarding in one transaction.

    Args:
        forwarder: reads the half topic.
        producer: whose transaction is open.
        sender: the same producer's.
    """

    forwarder: Forwarder
    producer: MarkedProducer
    sender: NativeSender

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
        left = np.zeros(len(offsets), dtype=bool)
        at = 0
        for run in runs_of(offsets):
            self._forward_run(partition, run, left[at : at + len(run)], find_topic)
            at += len(run)
        return left

    def _forward_run(
        self, partition: int, offsets: Ints, left: Bools, find_topic: FindTopic
    ) -> None:
        reader = self.forwarder.reader_at(partition, int(offsets[0]))
        progress = Progress()
        silent_polls, silent_at = 0, 0
        while why := self._step(reader, partition, offsets, left, progress):
            if why != Stop.SILENT:
                self._deal_with(why, progress, partition, find_topic)
                continue
            wanted = int(offsets[progress.at])
            if reader.is_behind_end(partition, wanted, POLL_S):
                left[progress.at :] = True
                break
            silent_polls = silent_polls + 1 if progress.at == silent_at else 1
            silent_at = progress.at
            if silent_polls == SILENCE_POLLS_MAX:
                raise silence_error(TopicPartition(self.forwarder.topic, partition, wanted))
        self.forwarder.stay_at(partition)

    def _step(
        self, reader: NativeReader, partition: int, offsets: Ints, left: Bools, progress: Progress
    ) -> Stop:
        """Forward until something stands against it."""
        why = self.forwarder.native.functions.forward(
            reader.address,
            self.sender.address,
            partition,
            offsets.ctypes.data,
            left.ctypes.data,
            len(offsets),
            int(POLL_S * 1_000),
            ctypes.byref(progress),
        )
        return Stop(why)

    def _deal_with(
        self, why: Stop, progress: Progress, partition: int, find_topic: FindTopic
    ) -> None:
        match why:
            case Stop.FULL:
                self.producer.make_room()
            case Stop.TOPIC_UNKNOWN:
                name = progress.said
                self.sender.add_topic(name, find_topic(name.decode("utf-8", "replace")))
            case Stop.READING_FAILED:
                text = progress.said.decode("utf-8", "replace")
                require_passing(KafkaError(progress.code, text), self.forwarder.topic, partition)
            case _:
                topic = progress.said.decode()
                self.producer.refuse(topic, KafkaError(progress.code))
