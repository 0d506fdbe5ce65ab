"""The compiled part of the sink, sinks/forward.c, as functions; without it the sink is slower.

It is built with the package where there is a C compiler, and needs nothing but what it finds in the
process: librdkafka's functions are those of the copy that confluent-kafka loaded.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from ctypes import POINTER, c_char, c_char_p, c_int, c_int32, c_int64, c_void_p
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

import confluent_kafka.cimpl
from confluent_kafka import KafkaError, KafkaException, Producer

from checkback.protocol import properties
from checkback.protocol.errors import BrokerError
from checkback.protocol.topics import HEADER_ROOM_BYTES
from checkback.sinks.real_topics import KnownTopic

FILE: Final = "forward.native.so"
"""A name that Python does not take for a module's: it is none."""
INTERFACE: Final = 1
TAKEN_OFF_MAX: Final = 64
PLUGIN_SETTING: Final = "plugin.library.paths"


class _HeaderNames(ctypes.Structure):
    """Names of headers that forward.c has to know."""

    _fields_ = (
        ("taken_off", POINTER(c_char_p)),
        ("real_topic", c_char_p),
        ("real_queue_id", c_char_p),
        ("queue_offset", c_char_p),
        ("queue_id", c_char_p),
    )


class Progress(ctypes.Structure):
    """Where forwarding stands, and what it stopped for.

    Attributes:
        at: how many offsets are seen to.
        forwarded: finals sent.
        code: librdkafka's, where reading or sending failed.
        text_len: bytes of the text.
        text: a topic's name, or what reading failed with.
    """

    _fields_ = (
        ("at", c_int64),
        ("forwarded", c_int64),
        ("code", c_int32),
        ("text_len", c_int32),
        ("text", c_char * 512),
    )
    at: int
    forwarded: int
    code: int

    @property
    def said(self) -> bytes:
        """The text."""
        start = ctypes.addressof(self) + Progress.text.offset
        length: int = self.text_len
        return ctypes.string_at(start, length)


_SIGNATURES: Final[Mapping[str, tuple[Any, tuple[Any, ...]]]] = {
    "interface_version": (c_int, ()),
    "librdkafka_functions": (POINTER(c_char_p), ()),
    "use_librdkafka": (None, (c_void_p,)),
    "newest_client": (c_void_p, ()),
    "reader_new": (c_void_p, (c_void_p, c_char_p, c_void_p, c_int64)),
    "reader_go_to": (c_int, (c_void_p, c_int32, c_int64)),
    "reader_is_behind_end": (c_int, (c_void_p, c_int32, c_int64, c_int)),
    "reader_position": (c_int64, (c_void_p,)),
    "reader_free": (None, (c_void_p,)),
    "sender_new": (c_void_p, (c_void_p, c_void_p, c_int64)),
    "sender_add_topic": (c_int, (c_void_p, c_char_p, c_int64, c_int64, c_int64, c_int)),
    "sender_free": (None, (c_void_p,)),
    "forward": (
        c_int,
        (c_void_p, c_void_p, c_int32, c_void_p, c_void_p, c_int64, c_int, c_void_p),
    ),
}


@dataclass(frozen=True, slots=True)
class Native:
    """The compiled part, ready to be used.

    Args:
        functions: forward.c's.
        path: its file, which librdkafka loads as its plugin.
        names: names of headers; must outlive every sender.
    """

    functions: ctypes.CDLL
    path: str
    names: _HeaderNames

    @property
    def client_settings(self) -> dict[str, Any]:
        """What a client must be made with for `newest_client` to know it."""
        return {PLUGIN_SETTING: self.path}

    def newest_client(self) -> int:
        """Return the address of the client that this thread made last."""
        return int(self.functions.newest_client() or 0)

    def reader(self, settings: Mapping[str, Any], topic: str) -> NativeReader:
        """Return what reads records of a topic.

        Args:
            settings: librdkafka's, of a consumer.
            topic: the topic.

        Raises:
            BrokerError: librdkafka does not take the settings.
        """
        return NativeReader(self.functions, settings, topic)

    @contextmanager
    def sender(self, producer: int) -> Iterator[NativeSender]:
        """Give what sends through a producer, to be left before the producer ends.

        Args:
            producer: address of the client.
        """
        address = self.functions.sender_new(
            producer, ctypes.addressof(self.names), HEADER_ROOM_BYTES
        )
        if not address:
            raise MemoryError
        try:
            yield NativeSender(self.functions, address)
        finally:
            self.functions.sender_free(address)


class NativeReader:
    """The consumer's side of forwarding: a client of its own, and what it has read ahead.

    Args:
        functions: forward.c's.
        settings: librdkafka's.
        topic: the topic.
    """

    def __init__(self, functions: ctypes.CDLL, settings: Mapping[str, Any], topic: str) -> None:
        self._functions = functions
        self._topic = topic.encode()  # kept: forward.c does not copy it
        words = [word for pair in settings.items() for word in map(_setting_text, pair)]
        text = ctypes.create_string_buffer(512)
        ended = (c_char_p * (len(words) + 1))(*words, None)
        self.address = functions.reader_new(ended, self._topic, text, len(text))
        if not self.address:
            raise BrokerError(
                f"No consumer of {topic} can be made: {text.value.decode()}.",
                remedy="Check the kafka.* settings.",
                topic=topic,
            )

    def position(self) -> int:
        """Return the offset from which on nothing was taken yet."""
        return int(self._functions.reader_position(self.address))

    def go_to(self, partition: int, offset: int) -> None:
        """Make the record at an offset, or the first one behind it, the next."""
        code = self._functions.reader_go_to(self.address, partition, offset)
        if code:
            error = KafkaError(code)
            raise BrokerError(
                f"Partition {partition} can't be read: {error.str()}.",
                remedy="Check the brokers.",
                code=error.name(),
            )

    def is_behind_end(self, partition: int, offset: int, timeout_s: float) -> bool:
        """Tell whether a partition holds nothing from an offset on; not while that is unknown."""
        timeout_ms = int(timeout_s * 1_000)
        return bool(
            self._functions.reader_is_behind_end(self.address, partition, offset, timeout_ms)
        )

    def close(self) -> None:
        """Give the connection up."""
        self._functions.reader_free(self.address)


def _setting_text(value: object) -> bytes:
    text = str(value)
    return (text.lower() if isinstance(value, bool) else text).encode()


@dataclass(frozen=True, slots=True)
class NativeSender:
    """The producer's side of forwarding: what it knows of topics."""

    functions: ctypes.CDLL
    address: int

    def add_topic(self, name: bytes, known: KnownTopic | None) -> None:
        """Make a topic known; with None, what goes there is left to Python."""
        facts = (known.partitions, known.record_batch_bytes_max, known.needs_key) if known else ()
        if self.functions.sender_add_topic(
            self.address, name, len(name), *(facts or (0, 0, False))
        ):
            raise MemoryError


@cache
def native() -> Native | None:
    """Return the compiled part; None where it was not built, or can't be used here."""
    try:
        functions = ctypes.CDLL(_file())
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(functions, name)
            function.restype, function.argtypes = result, arguments
        if functions.interface_version() != INTERFACE:  # built from an older checkout
            return None
        functions.use_librdkafka(_addresses(functions.librdkafka_functions()))
    except (OSError, AttributeError):
        return None
    found = Native(functions, _file(), _header_names())
    return found if _is_told_of_clients(found) else None


@cache
def _file() -> str:
    # Executors may have the package as a zip; what is unpacked from it stays for the process.
    stack = ExitStack()
    path = stack.enter_context(resources.as_file(resources.files("checkback.sinks") / FILE))
    return str(path)


def _addresses(names: Iterable[bytes | None]) -> ctypes.Array[c_void_p]:
    """Return where librdkafka's functions are; None ends their names."""
    # Looked up through confluent-kafka's module, whichever way librdkafka is linked to it.
    library = ctypes.CDLL(confluent_kafka.cimpl.__file__)
    found = []
    for name in names:
        if name is None:
            break
        found.append(ctypes.cast(getattr(library, name.decode()), c_void_p).value)
    return (c_void_p * len(found))(*found)


def _header_names() -> _HeaderNames:
    taken_off = sorted(properties.NOT_ON_FINAL)
    if len(taken_off) > TAKEN_OFF_MAX:
        raise AssertionError("forward.c notes which headers it met in 64 bits")
    ended = (c_char_p * (len(taken_off) + 1))(*(name.encode() for name in taken_off), None)
    single = (
        properties.REAL_TOPIC,
        properties.REAL_QID,
        properties.TRAN_PREPARED_QUEUE_OFFSET,
        properties.TRAN_HALF_QUEUE_ID,
    )
    return _HeaderNames(ended, *(name.encode() for name in single))


def _is_told_of_clients(found: Native) -> bool:
    """Tell whether this librdkafka loads plugins; a client without brokers connects to nothing."""
    try:
        Producer({**found.client_settings, "log_level": 0})
    except KafkaException:
        return False
    return found.newest_client() != 0
