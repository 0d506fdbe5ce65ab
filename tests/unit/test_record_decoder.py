"""The constants of the classes that decode are Python's: each stands in two languages."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from checkback.protocol import properties as names
from checkback.protocol.refusals import (
    GROUP_BYTES_MAX,
    ID_BYTES_MAX,
    IMMUNITY_DIGITS_MAX,
    TOPIC_LENGTH_MAX,
    RefusedReason,
)
from checkback.state import CLOSED, DIRECT_SOURCE, EventKind
from checkback.state.events import NO_IMMUNITY
from checkback.state.identity import SLICE, TRANSACTION_BITS
from checkback.streaming.decode import DECODER, EVENT_COLUMNS, EVENT_TYPE

SOURCES = [
    resources.files("checkback.streaming").joinpath(f"{name}.java").read_text("utf-8")
    for name in (DECODER, "EventIdentity", "KafkaRecord", "RecordHeaders")
]
FOUND = dict(re.findall(r"static final [\w\[\]]+ (\w+) =\s+([^;]+);", "".join(SOURCES)))
HALF, OP = names.HALF_PROTOCOL_ORDER, names.OP_PROTOCOL_ORDER
REFUSED_IN_DECODING = [
    one for one in RefusedReason if one < 30 and one is not RefusedReason.TRANSACTIONS_REJECTED
]
NUMBERS = {
    **{one.name: one.value for one in REFUSED_IN_DECODING},
    **{one.name: one.value for one in EventKind},
    "TAKEN": 0,
    "TRAN_MSG_OF_HALF": HALF.index(names.TRAN_MSG),
    "PGROUP_OF_HALF": HALF.index(names.PGROUP),
    "UNIQ_KEY_OF_HALF": HALF.index(names.UNIQ_KEY),
    "REAL_TOPIC_OF_HALF": HALF.index(names.REAL_TOPIC),
    "IMMUNITY_OF_HALF": HALF.index(names.CHECK_IMMUNITY_TIME_IN_SECONDS),
    "TAGS_OF_OP": OP.index(names.TAGS),
    "STATE_OF_OP": OP.index(names.COMMIT_OR_ROLLBACK),
    "PGROUP_OF_OP": OP.index(names.PGROUP),
    "UNIQ_KEY_OF_OP": OP.index(names.UNIQ_KEY),
    "GROUP_BYTES_MAX": GROUP_BYTES_MAX,
    "ID_BYTES_MAX": ID_BYTES_MAX,
    "TOPIC_LENGTH_MAX": TOPIC_LENGTH_MAX,
    "IMMUNITY_DIGITS_MAX": IMMUNITY_DIGITS_MAX,
    "NO_IMMUNITY": NO_IMMUNITY,
    "CLOSED": CLOSED,
    "UNKNOWN_STATE": -1,
    "NONE": -1,
    "COLUMNS": len(EVENT_COLUMNS),
    "TRANSACTION_BITS": TRANSACTION_BITS,
    "SLICE": SLICE,
}
BYTES = {
    "TRUE": "true",
    "OP_TAG_REMOVE": names.OP_TAG_REMOVE,
    "OP_TAG_UNDELIVERED": names.OP_TAG_UNDELIVERED,
    "OP_TAG_FENCED": names.OP_TAG_FENCED,
    "TRANSACTION_CHECK_TIMES": names.TRANSACTION_CHECK_TIMES,
    "DIRECT_ID": names.DIRECT_ID,
    "DIRECT_CLOSED": names.DIRECT_CLOSED,
    "FENCED_HALF": names.FENCED_HALF,
}
ASCII = {"TAGS": names.TAGS, "HEX_DIGITS": "0123456789abcdef"}
PLAIN_STATES = [one for one in names.OP_STATES if one != names.TRANSACTION_DELIVERED]
EXPECTED = {
    **{name: str(value) for name, value in NUMBERS.items()},
    **{name: f'bytes("{text}")' for name, text in BYTES.items()},
    **{name: f'"{text}".getBytes(StandardCharsets.US_ASCII)' for name, text in ASCII.items()},
    "HALF_ORDER": f'"{" ".join(HALF)}"',
    "OP_ORDER": f'"{" ".join(OP)}"',
    "STATES": "{" + ", ".join(f'"{one}"' for one in PLAIN_STATES) + "}",
    "DELIVERED": f'"{names.TRANSACTION_DELIVERED}"',
    "DIRECT_SOURCE": f"{DIRECT_SOURCE}L",
    "REPLACEMENT": "{" + ", ".join(f"(byte) 0x{one:02x}" for one in "\ufffd".encode()) + "}",
    "NAMES_OF_HALF": 'all(HALF_ORDER.split(" "))',
    "NAMES_OF_OP": 'all(OP_ORDER.split(" "))',
    "KNOWN_STATES": "all(STATES)",
    "DELIVERED_STATE": "bytes(DELIVERED)",
}


def test_no_constant_of_the_classes_is_left_out() -> None:
    assert FOUND.keys() == EXPECTED.keys()


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_constant_of_the_classes_is_pythons(name: str) -> None:
    assert FOUND[name] == EXPECTED[name]


def test_a_row_of_the_class_has_the_columns_of_an_event() -> None:
    assert tuple(one.split()[0] for one in EVENT_TYPE.split(",")) == EVENT_COLUMNS
