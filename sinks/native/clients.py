"""The Kafka clients that forward.c reads and sends through."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from ctypes import c_char, c_char_p, c_int32, c_int64, c_void_p
from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np
from confluent_kafka import KafkaError, TopicPartition
from numpy.typing import NDArray

from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka.cluster.topic_directory import KnownTopic
from checkback.sinks.kafka.read.errors import require_passing
from checkback.sinks.kafka.read.record_reader import (
    POLL_S,
    RUN_GAP_MAX,
    SILENCE_POLLS_MAX,
    silence_error,
)
from checkback.sinks.native.library import RECORD_SIZES, Native

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
POLL_MS: Final = int(POLL_S * 1_000)


class StopReason(IntEnum):
    """The reason for which forward.c returned."""

    DONE = 0
    SILENT = 1
    FULL = 2
    TOPIC_UNKNOWN = 3
    READING_FAILED = 4
    SENDING_FAILED = 5
    NO_MEMORY = 6


class ForwardProgress(ctypes.Structure):
    """How far a call of forward.c has come, and the reason for its end.

    Attributes:
        at: how many offsets are done.
        code: librdkafka's, where reading or sending failed.
        text_len: bytes of the text.
        text: a topic's name, or what reading failed with.
    """

    _fields_ = (
        ("at", c_int64),
        ("code", c_int32),
        ("text_len", c_int32),
        ("text", c_char * 512),
    )
    at: int
    code: int

    @property
    def text_bytes(self) -> bytes:
        """The text."""
        start = ctypes.addressof(self) + ForwardProgress.text.offset
        length: int = self.text_len
        return ctypes.string_at(start, length)


NOTED: Final = 3


class NativeNotes(ctypes.Structure):
    """Values of headers, a row for each offset; as many bytes as they have are kept.

    Attributes:
        rows: how many there are.
    """

    _fields_ = (
        ("header", c_char_p * NOTED),
        ("is_there", c_void_p * NOTED),
        ("ends", c_void_p * NOTED),
        ("has_time", c_void_p),
        ("time_ms", c_void_p),
        ("bytes", c_void_p * NOTED),
        ("capacity", c_int64 * NOTED),
        ("rows", c_int64),
    )
    rows: int

    def __init__(self, headers: tuple[str, str, str], count: int) -> None:
        super().__init__()
        self.is_there_rows = np.zeros((NOTED, count), np.bool_)
        self.ends_rows = np.zeros((NOTED, count + 1), np.int32)
        self.has_time_rows = np.zeros(count, np.bool_)
        self.time_ms_rows = np.zeros(count, np.int64)
        for number, name in enumerate(headers):
            self.header[number] = name.encode()
            self.is_there[number] = self.is_there_rows[number].ctypes.data
            self.ends[number] = self.ends_rows[number].ctypes.data
        self.has_time = self.has_time_rows.ctypes.data
        self.time_ms = self.time_ms_rows.ctypes.data

    def end(self) -> None:
        """Add empty rows for the offsets behind the topic's end."""
        self.ends_rows[:, self.rows + 1 :] = self.ends_rows[:, self.rows, np.newaxis]

    def values(self, number: int) -> bytes:
        """Return the values of one header, without gaps between them."""
        return ctypes.string_at(self.bytes[number] or 0, int(self.ends_rows[number, -1]))


@contextmanager
def native_notes(
    native: Native, headers: tuple[str, str, str], count: int
) -> Iterator[NativeNotes]:
    """Yield notes for that many offsets; their memory is freed afterwards."""
    notes = NativeNotes(headers, count)
    try:
        yield notes
    finally:
        native.functions.notes_free(ctypes.byref(notes))


class NativeSender:
    """A producer and its known topics."""

    def __init__(self, native: Native, address: int) -> None:
        self._native = native
        self.address = address

    def add_topic(self, name: bytes, known: KnownTopic | None) -> None:
        """Make a topic known; with None, what goes there is left to Python."""
        facts = (0, 0, False)
        if known is not None:
            facts = (known.partitions, known.record_batch_bytes_max, known.needs_key)
        if self._native.functions.sender_add_topic(self.address, name, len(name), *facts):
            raise MemoryError


@contextmanager
def native_sender(native: Native, producer: int) -> Iterator[NativeSender]:
    """Yield a sender over a producer; leave the block before the producer ends."""
    names = ctypes.addressof(native.names)
    sizes = ctypes.addressof(RECORD_SIZES)
    address = native.functions.sender_new(producer, names, sizes)
    if not address:
        raise MemoryError
    try:
        yield NativeSender(native, address)
    finally:
        native.functions.sender_free(address)


class SendTarget(NamedTuple):
    """The destination of finals.

    Args:
        decided: int64[n, 2], of the half at each offset, see sinks.lookups.Lookup.
        on_stop: called with what keeps a final from being sent; raises if the sink can't go on.
    """

    to: NativeSender
    decided: Ints
    on_stop: Callable[[StopReason, ForwardProgress], None]


class NativeReader:
    """A consumer of one topic, made at the first read, with the records that it has read ahead."""

    def __init__(self, native: Native, settings: Mapping[str, Any], topic: str) -> None:
        self.native = native
        self._functions = native.functions
        self._settings = settings
        self._topic = topic
        self._topic_name = topic.encode()  # kept: forward.c does not copy it
        self._address: int | None = None

    def _opened(self) -> int:
        words = [word for pair in self._settings.items() for word in map(_setting_text, pair)]
        text = ctypes.create_string_buffer(512)
        ended = (c_char_p * (len(words) + 1))(*words, None)
        address: int = self._functions.reader_new(
            ended, self._topic_name, RUN_GAP_MAX, text, len(text)
        )
        if not address:
            raise BrokerError(
                f"No consumer of {self._topic} can be made: {text.value.decode()}.",
                remedy="Check the kafka.* settings.",
                topic=self._topic,
            )
        return address

    def forward(
        self,
        partition: int,
        offsets: Ints,
        left: Bools,
        sending: SendTarget | None = None,
        notes: NativeNotes | None = None,
    ) -> None:
        """Read records, send the finals of some, and note the names in them.

        Args:
            offsets: int64[n], ascending, without repeats, all below the partition's end.
            left: bool[n], halves with a final to send; false afterwards where it was sent.
            sending: needed where anything is to be sent.
            notes: takes a row for each offset.

        Raises:
            BrokerError: the topic can't be read, the brokers gave nothing for a minute, or
                librdkafka does not take the settings.
        """
        if self._address is None:
            self._address = self._opened()
        progress, silent_at, silent_polls = ForwardProgress(), -1, 0
        try:
            while why := self._step(partition, offsets, left, sending, notes, progress):
                if why == StopReason.SILENT:
                    offset = int(offsets[progress.at])
                    if self._functions.reader_is_behind_end(
                        self._address, partition, offset, POLL_MS
                    ):
                        return
                    silent_polls = silent_polls + 1 if offset == silent_at else 1
                    silent_at = offset
                    _require_answer(silent_polls, TopicPartition(self._topic, partition, offset))
                elif why == StopReason.READING_FAILED:
                    text = progress.text_bytes.decode("utf-8", "replace") or None
                    require_passing(KafkaError(progress.code, text), self._topic, partition)
                elif sending is not None:
                    sending.on_stop(why, progress)
        except BaseException:
            self._functions.reader_forget(self._address)
            raise

    def rest(self) -> None:
        """Ask the brokers for nothing until the next call."""
        if self._address is not None:
            self._functions.reader_rest(self._address)

    def close(self) -> None:
        """Give the connection up."""
        if self._address is not None:
            self._functions.reader_free(self._address)
            self._address = None

    def _step(
        self,
        partition: int,
        offsets: Ints,
        left: Bools,
        sending: SendTarget | None,
        notes: NativeNotes | None,
        progress: ForwardProgress,
    ) -> StopReason:
        why: int = self._functions.forward(
            self._address,
            sending.to.address if sending is not None else None,
            ctypes.byref(notes) if notes is not None else None,
            partition,
            offsets.ctypes.data,
            sending.decided.ctypes.data if sending is not None else None,
            left.ctypes.data,
            len(offsets),
            POLL_MS,
            ctypes.byref(progress),
        )
        if why == StopReason.NO_MEMORY:
            raise MemoryError
        return StopReason(why)


def _require_answer(silent_polls: int, position: TopicPartition) -> None:
    if silent_polls == SILENCE_POLLS_MAX:
        raise silence_error(position)


def _setting_text(value: object) -> bytes:
    text = str(value)
    return (text.lower() if isinstance(value, bool) else text).encode()
