"""A refused record fits wherever it goes, and says what it was."""

from __future__ import annotations

from typing import Any

import pytest

from checkback.protocol.properties import text_value
from checkback.protocol.record_size import headers_bytes_max, record_bytes_max
from checkback.protocol.refusals import (
    RecordOrigin,
    RecordParts,
    RefusedParts,
    RefusedReason,
    refusal_text,
    refused_parts,
)

ORIGIN = RecordOrigin("halves", 3, 42)
REASON = RefusedReason.FINAL_TOO_LARGE


def fact(made: RefusedParts, name: str) -> str | None:
    return text_value(made.headers, f"__checkback.errors.{name}")


def refused(key: bytes, value: bytes, wide: int, bytes_max: int | None) -> RefusedParts:
    headers = [("PGROUP", b"g"), ("UNIQ_KEY", b"id"), ("mine", b"x" * wide)]
    return refused_parts(RecordParts(key, value, headers), REASON, ORIGIN, "", bytes_max)


@pytest.mark.parametrize(
    ("detail", "end"), [("", "refused: the transaction was committed"), ("x", "was committed: x")]
)
def test_a_text_without_a_detail_ends_with_its_sentence(detail: str, end: str) -> None:
    """The log said "the transaction was committed: "."""
    assert refusal_text(RefusedReason.ROLLBACK_AFTER_COMMIT, detail).endswith(end)


def test_a_record_that_fits_is_untouched() -> None:
    made = refused(b"k", b"body", 10, 2_000)

    assert (made.key, made.value) == (b"k", b"body")
    assert text_value(made.headers, "mine") == "x" * 10
    assert fact(made, "cut") is None


@pytest.mark.parametrize(
    ("key", "value", "wide", "cut"),
    [
        (1, 5_000, 10, "value"),
        (1, 10, 5_000, "headers"),
        (1, 5_000, 5_000, "value,headers"),
        (5_000, 5_000, 5_000, "value,headers,key"),
    ],
)
def test_what_does_not_fit_is_left_out_and_told(key: int, value: int, wide: int, cut: str) -> None:
    made = refused(b"k" * key, b"v" * value, wide, 2_000)

    assert record_bytes_max(*made) <= 2_000
    assert fact(made, "cut") == cut
    assert fact(made, "original_key_bytes") == str(key)
    assert fact(made, "original_value_bytes") == str(value)
    assert fact(made, "original_headers") == "3"
    assert (fact(made, "topic"), fact(made, "partition"), fact(made, "offset")) == (
        "halves", "3", "42",
    )  # fmt: skip
    assert (made.value is None) == ("value" in cut)
    assert (text_value(made.headers, "UNIQ_KEY") is None) == ("key" in cut)


def test_a_long_detail_is_cut() -> None:
    made = refused_parts(RecordParts(None, None, []), REASON, ORIGIN, "x" * 100_000, 2_000)

    assert record_bytes_max(*made) <= 2_000


def test_headers_that_cannot_be_read_are_told_to_be_missing() -> None:
    made = refused_parts(RecordParts(b"k", b"v", None), REASON, ORIGIN)

    assert (made.key, made.value) == (b"k", b"v")
    assert fact(made, "cut") == "headers"
    assert fact(made, "original_headers") is None


def test_more_headers_than_every_client_reads_are_left_out() -> None:
    many = [(f"h{number}", b"") for number in range(20_000)]

    made = refused_parts(RecordParts(b"k", b"v", many), REASON, ORIGIN)

    assert len(made.headers) < 20
    assert fact(made, "original_headers") == "20000"


def test_a_record_of_which_nothing_fits_keeps_its_origin() -> None:
    made = refused(b"k", b"v", 1, 0)

    assert (made.key, made.value, fact(made, "offset")) == (None, None, "42")


def test_a_header_is_measured_by_its_bytes_and_may_be_null() -> None:
    plain = record_bytes_max(b"key", b"body", [("ae", b"")])
    wide = record_bytes_max(b"key", b"body", [("é", b"")])
    null: Any = [("ae", None)]

    assert wide == plain
    assert record_bytes_max(b"key", b"body", null) == plain


def test_a_record_is_as_large_as_its_parts() -> None:
    headers = [("a", b"12")]

    assert record_bytes_max(b"k", b"12345", headers) == (
        record_bytes_max(None, None, []) + 6 + headers_bytes_max(headers)
    )
