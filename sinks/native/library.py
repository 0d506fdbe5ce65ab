"""The compiled part of the sink, forward.c, as functions; without it the sink is slower.

The package builds it where there is a C compiler. It needs no library of its own: it calls
librdkafka in the copy that confluent-kafka loaded into the process.
"""

from __future__ import annotations

import atexit
import ctypes
from collections.abc import Mapping
from contextlib import ExitStack
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_void_p
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

import confluent_kafka.cimpl
from confluent_kafka import KafkaException, Producer

from checkback.protocol import properties
from checkback.protocol.record_size import (
    HEADER_OVERHEAD_BYTES,
    HEADERS_MAX,
    RECORD_BATCH_OVERHEAD_BYTES,
    RECORD_OVERHEAD_BYTES,
)
from checkback.protocol.topics import HEADER_ROOM_BYTES

FILE: Final = "forward.native.so"
"""A file name that Python does not take for a module, because this is none."""
INTERFACE: Final = 5
TAKEN_OFF_MAX: Final = 64
PLUGIN_SETTING: Final = "plugin.library.paths"


_unpacked: Final = ExitStack()
"""Holds what was unpacked from a zip until the process ends."""
atexit.register(_unpacked.close)


class HeaderNames(ctypes.Structure):
    """The header names that forward.c needs."""

    _fields_ = (
        ("taken_off", POINTER(c_char_p)),
        ("real_topic", c_char_p),
        ("real_queue_id", c_char_p),
        ("queue_offset", c_char_p),
        ("queue_id", c_char_p),
        ("group", c_char_p),
        ("transaction_id", c_char_p),
    )


RECORD_SIZES: Final = (c_int64 * 4)(
    RECORD_BATCH_OVERHEAD_BYTES + RECORD_OVERHEAD_BYTES,
    HEADER_OVERHEAD_BYTES,
    HEADER_ROOM_BYTES,
    HEADERS_MAX,
)
"""What forward.c computes a record's size from, its record_sizes."""

_SIGNATURES: Final[Mapping[str, tuple[Any, tuple[Any, ...]]]] = {
    "interface_version": (c_int, ()),
    "use_librdkafka": (c_int, (c_void_p,)),
    "newest_client": (c_void_p, ()),
    "reader_new": (c_void_p, (c_void_p, c_char_p, c_int64, c_void_p, c_int64)),
    "reader_forget": (None, (c_void_p,)),
    "reader_rest": (None, (c_void_p,)),
    "reader_is_behind_end": (c_int, (c_void_p, c_int32, c_int64, c_int)),
    "reader_free": (None, (c_void_p,)),
    "sender_new": (c_void_p, (c_void_p, c_void_p, c_void_p)),
    "sender_add_topic": (c_int, (c_void_p, c_char_p, c_int64, c_int64, c_int64, c_int)),
    "sender_free": (None, (c_void_p,)),
    "notes_free": (None, (c_void_p,)),
    "identity_of": (None, (c_char_p, c_int64, c_char_p, c_int64, c_void_p)),
    "forward": (
        c_int,
        (
            *(c_void_p, c_void_p, c_void_p, c_int32),
            *(c_void_p, c_void_p, c_void_p, c_int64, c_int, c_void_p),
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Native:
    """The loaded compiled part.

    Args:
        path: its file, which librdkafka loads as its plugin.
        names: names of headers; must outlive every sender.
    """

    functions: ctypes.CDLL
    path: str
    names: HeaderNames

    @property
    def client_settings(self) -> dict[str, Any]:
        """Return the settings by which `newest_client` knows a client."""
        return {PLUGIN_SETTING: self.path}

    def newest_client(self) -> int:
        """Return the address of the client that this thread made last."""
        return int(self.functions.newest_client() or 0)


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
        # Through confluent-kafka's module, whichever way librdkafka is linked to it.
        linked = ctypes.CDLL(confluent_kafka.cimpl.__file__)._handle  # noqa: SLF001
        if functions.use_librdkafka(linked):
            return None
    except (OSError, AttributeError):
        return None
    found = Native(functions, _file(), _header_names())
    return found if _knows_clients(found) else None


@cache
def _file() -> str:
    # Executors may have the package as a zip.
    packed = resources.as_file(resources.files("checkback.sinks.native") / FILE)
    return str(_unpacked.enter_context(packed))


def _header_names() -> HeaderNames:
    taken_off = sorted(properties.NOT_ON_FINAL)
    if len(taken_off) > TAKEN_OFF_MAX:
        raise AssertionError("forward.c notes which headers it met in 64 bits")
    ended = (c_char_p * (len(taken_off) + 1))(*(name.encode() for name in taken_off), None)
    single = (
        properties.REAL_TOPIC,
        properties.REAL_QID,
        properties.TRAN_PREPARED_QUEUE_OFFSET,
        properties.TRAN_HALF_QUEUE_ID,
        properties.PGROUP,
        properties.UNIQ_KEY,
    )
    return HeaderNames(ended, *(name.encode() for name in single))


def _knows_clients(found: Native) -> bool:
    """Return whether this librdkafka loads plugins: try it with a client that has no brokers."""
    try:
        Producer({**found.client_settings, "log_level": 0})
    except KafkaException:
        return False
    return found.newest_client() != 0
