"""How large a record is reckoned to be."""

from __future__ import annotations

from typing import Any

from checkback.protocol.record_size import headers_bytes_max, record_bytes_max


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
