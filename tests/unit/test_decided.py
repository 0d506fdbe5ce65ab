"""The records on the decided topic (protocol/decided.py) are read as they were written."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.deciding import DecidedOp, decided_op

from checkback.protocol.decided import (
    KIND_HEADER_PREFIX,
    Closed,
    OpKind,
    PartitionNote,
    RelayMark,
    Taken,
    delivered_headers,
    note_headers,
    note_value,
    partition_note,
    passed_headers,
)
from checkback.protocol.properties import TRANSACTION_DELIVERED, named_offset
from checkback.protocol.records import Op
from checkback.streaming.relay.decided_topic import kind_of

OP = Op(2, 77, "orders", "3f9c2a", 8, from_transaction_check=True, remark="r")
NOTES = [
    Taken(90, 78),
    Closed(2**62),
    RelayMark(92, 78, 1_700_000_000_000, 90, 78),
]


@pytest.mark.parametrize("kind", [OpKind.PASSED, OpKind.EARLY, OpKind.UNREADABLE])
def test_an_op_goes_out_as_it_was_with_one_header_more(kind: OpKind) -> None:
    made = passed_headers(OP.headers(), kind, 91)

    assert made[:-1] == OP.headers()
    assert decided_op(made) == DecidedOp(kind, 91)
    assert partition_note(made, OP.value()) is None


def test_a_delivered_op_says_so_in_the_order_of_an_op() -> None:
    made = delivered_headers(b"orders", b"3f9c2a", b"true", 91)

    assert made[:-1] == Op(2, 77, "orders", "3f9c2a", TRANSACTION_DELIVERED, True).headers()
    assert decided_op(made) == DecidedOp(OpKind.DELIVERED, 91)


@pytest.mark.parametrize("note", NOTES)
def test_a_note_on_a_partition_is_read_as_it_was_written(note: PartitionNote) -> None:
    headers, value = note_headers(note), note_value(note)

    assert partition_note(headers, value) == note
    assert partition_note(headers, value[:-1] + b', "later": [1]}') == note
    assert decided_op(headers) is None


@pytest.mark.parametrize(
    "value", [None, b"", b"7", b"{}", b"[" * 100_000, b'{"ops_from": "1"}', b'{"ops_from": true}']
)
def test_what_is_no_note_says_nothing(value: bytes | None) -> None:
    assert partition_note(note_headers(Closed(1)), value) is None


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("closed", b"")],
        [(KIND_HEADER_PREFIX + "passed", None)],
        [(KIND_HEADER_PREFIX + "passed", b"-1")],
        [(KIND_HEADER_PREFIX + "passed", "९".encode())],
        [(KIND_HEADER_PREFIX + "closed", b""), ("TAGS", b"d")],
        [(KIND_HEADER_PREFIX + "passed", b"1"), ("TAGS", b"d")],
    ],
)
def test_a_stranger_s_record_is_neither(headers: list[tuple[str, bytes | None]]) -> None:
    assert decided_op(headers) is None
    assert partition_note(headers, note_value(Closed(1))) is None


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (b"7", 7),
        (b"0" * 30 + b"7", 7),
        (b"000", 0),
        (b"9223372036854775807", 2**63 - 1),
        (b"9223372036854775808", None),
        (b"1" * 20, None),
        (b"-1", None),
        ("७".encode(), None),
        (b"", None),
        (None, None),
    ],
)
def test_the_value_of_an_op_names_an_offset(value: bytes | None, named: int | None) -> None:
    assert named_offset(value) == named


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (b"5", OpKind.EARLY),
        (b"0" * 30 + b"5", OpKind.EARLY),
        (b"4", OpKind.PASSED),
        (b"x", OpKind.PASSED),
    ],
)
def test_an_op_that_relays_left_is_early_however_it_writes_the_offset(
    value: bytes, kind: OpKind
) -> None:
    """With zeros in front it was passed, and decided the half that came later."""
    op: Any = SimpleNamespace(value=lambda: value)

    assert kind_of(op, half_end=5) is kind
