"""A claim is read from the settled topic, on which a stranger may have written first."""

from __future__ import annotations

from typing import Any

import pytest

from checkback.streaming.start.topic_claim import HEADER, Claim

CLAIM = Claim("id", "app", "/checkpoint")


class Record:
    """A record with one header."""

    def __init__(self, name: str, value: bytes | None) -> None:
        self.name, self.value = name, value

    def headers(self) -> list[tuple[str, bytes | None]]:
        return [(self.name, self.value)]


def claim_in(name: str, value: bytes | None) -> Claim | None:
    record: Any = Record(name, value)
    return Claim.from_record(record)


def test_a_claim_is_read_as_it_was_written() -> None:
    assert claim_in(HEADER, CLAIM.to_header()) == CLAIM
    assert claim_in("TAGS", CLAIM.to_header()) is None


@pytest.mark.parametrize(
    "said", [b"", b"{", b"[]", b"7", b"null", b"{}", b"\xff", b"[" * 200_000, b'{"id": 1}', None]
)
def test_what_is_no_claim_ends_no_start(said: bytes | None) -> None:
    assert claim_in(HEADER, said) is None
