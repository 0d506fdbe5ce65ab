"""The constants of the classes that verify are Python's: each stands in two languages."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from checkback.protocol import properties as names
from checkback.protocol.refusals import RefusedReason
from checkback.protocol.signed_content import (
    BORN_TIME_TOLERANCE_MS,
    SEPARATOR,
    TIMESTAMP_BYTES_MAX,
    signed_tail,
)
from checkback.streaming import access_table
from checkback.streaming.verification import VERIFIER

SOURCES = [
    resources.files("checkback.streaming").joinpath(f"{name}.java").read_text("utf-8")
    for name in (VERIFIER, "SignedRecord")
]
FOUND = dict(re.findall(r"static final [\w\[\]]+ (\w+) =\s+([^;]+);", "".join(SOURCES)))
REFUSALS = (
    RefusedReason.ACCESS_KEY_MISSING, RefusedReason.ACCESS_KEY_UNKNOWN,
    RefusedReason.SIGNATURE_WRONG, RefusedReason.BORN_TIME_WRONG,
    RefusedReason.TOPIC_NOT_PERMITTED, RefusedReason.GROUP_NOT_PERMITTED,
    RefusedReason.ADMIN_NEEDED, RefusedReason.SIGNATURE_UNREADABLE,
    RefusedReason.BORN_TIME_UNREADABLE,
)  # fmt: skip
HALF, OP = names.HALF_PROTOCOL_ORDER, names.OP_PROTOCOL_ORDER
LINE_LARGEST = f"HmacSHA256 {'t' * 249} {2**31 - 1} {2**31 - 1} {2**31 - 1}\n"
"""Kafka's topics have names of 249 characters at most."""
NUMBERS = {
    **{one.name: one.value for one in REFUSALS},
    "BELIEVED": 0,
    "PGROUP_OF_HALF": HALF.index(names.PGROUP),
    "REAL_TOPIC_OF_HALF": HALF.index(names.REAL_TOPIC),
    "PGROUP_OF_OP": OP.index(names.PGROUP),
    "ANSWERS_CHECK_OF_OP": OP.index(names.FROM_TRANSACTION_CHECK),
    "HEADERS_IN_ORDER": len(HALF),
    "TIMESTAMP_BYTES_MAX": TIMESTAMP_BYTES_MAX,
    "OPENING_BYTES_MAX": access_table.BLOCK_BYTES + len(LINE_LARGEST),
}
TEXTS = {
    "RESUME_HEADER_PREFIX": names.RESUME_HEADER_PREFIX,
    "MANUAL_OPERATOR": names.MANUAL_OPERATOR,
    "TRUE": "true",
}
NAMES = {"SIGNATURE": names.SIGNATURE, "BORN_HOST": names.BORN_HOST}
KINDS = {"TOPIC": access_table.TOPIC, "GROUP": access_table.GROUP}
EXPECTED = {
    **{name: str(value) for name, value in NUMBERS.items()},
    **{name: f'UTF8String.fromString("{text}")' for name, text in TEXTS.items()},
    **{name: f'RecordDecoder.bytes("{text}")' for name, text in NAMES.items()},
    **{name: f'"{text}"' for name, text in KINDS.items()},
    "NONE": "RecordHeaders.NONE",
    "BORN_TIME_TOLERANCE_MS": f"{BORN_TIME_TOLERANCE_MS}L",
    "SEPARATOR": f"(byte) 0x{SEPARATOR.hex()}",
    "SPACE": f"(byte) 0x{signed_tail('', '', 1)[-1][1][-1:].hex()}",
}


def test_no_constant_of_the_class_is_left_out() -> None:
    assert FOUND.keys() == EXPECTED.keys()


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_constant_of_the_class_is_pythons(name: str) -> None:
    assert FOUND[name] == EXPECTED[name]


def test_both_orders_are_as_long() -> None:
    assert len(HALF) == len(OP)
