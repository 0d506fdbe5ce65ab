"""What is signed: every byte of a record, and no two records have the same content."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkback.protocol.records import Op
from checkback.protocol.signed_content import (
    SEPARATOR,
    is_access_key,
    signed_content,
    signed_tail,
    signed_tail_largest,
    with_signature,
)

TEXTS = st.text(max_size=4)
STATED = st.integers(0, 10**13 - 1).map(lambda ms: signed_tail("account", "", ms))
VALUES = TEXTS.map(str.encode) | st.binary(max_size=4).map(
    lambda value: value.replace(SEPARATOR, b"")
)
HEADERS = st.builds(list.__add__, st.lists(st.tuples(TEXTS, VALUES), max_size=4), STATED)
MAYBE = st.none() | st.binary(max_size=4)
RECORDS = st.tuples(
    st.sampled_from(["half", "op"]), st.none() | st.integers(0, 12), MAYBE, MAYBE, HEADERS
)


def read(content: bytes) -> object:
    """Read a content as anybody could who has only its description."""
    line, _, rest = content.partition(b"\n")
    algorithm, topic, place, head_size, key_size = line.split(b" ")
    head, rest = rest[: int(head_size)], rest[int(head_size) :]
    parts = head.split(b"\xff")[:-1]
    count = len(parts) // 2
    key, value = (
        (None, rest) if key_size == b"-" else (rest[: int(key_size)], rest[int(key_size) :])
    )
    return algorithm, topic, place, parts[:count], parts[count:], key, value


@given(RECORDS)
def test_a_content_says_all_of_its_record(
    record: tuple[str, int | None, bytes | None, bytes | None, list[tuple[str, bytes]]],
) -> None:
    """So no two records have the same: of RocketMQ's, values without names and separators, some do.

    Only a value that is missing is as an empty one; neither record is taken.
    """
    topic, partition, key, value, headers = record

    content = signed_content(topic, partition, key, value, headers, "HmacSHA256")

    assert read(content) == (
        b"HmacSHA256",
        topic.encode(),
        b"-" if partition is None else b"%d" % partition,
        [name.encode() for name, _ in headers],
        [content for _, content in headers],
        key,
        value or b"",
    )


def test_the_tail_has_its_order_and_its_largest_size() -> None:
    tail = signed_tail("key", "10.0.0.1", 1_700_000_000_000)
    largest = signed_tail_largest("key", "10.0.0.1")

    assert tail == [("__BORNHOST", b"10.0.0.1"), ("Signature", b"1700000000000 key ")]
    assert signed_tail("key", "", 1) == [("Signature", b"1 key ")]
    assert [name for name, _ in largest] == ["__BORNHOST", "Signature"]
    assert [len(value) for _, value in largest] == [
        len(value) for _, value in with_signature(tail, "=" * 44)
    ]


@pytest.mark.parametrize("access_key", ["orders-service", "сервис", "a=b:c/d", "ключ́"])
def test_an_access_key_may_be_of_any_letters(access_key: str) -> None:
    assert is_access_key(access_key)


@pytest.mark.parametrize("character", [" ", "\t", "\n", "\0", "\x7f", "\xa0", "\u2028", "\ud800"])
def test_an_access_key_has_no_space_and_nothing_that_can_not_be_seen(character: str) -> None:
    assert not is_access_key(f"orders{character}service")


def test_an_op_binds_partition_offset_and_verdict() -> None:
    def content(op: Op) -> bytes:
        return signed_content("op", op.half_partition, op.key(), op.value(), op.headers(), "x")

    ops = [
        Op(1, 2, "g", "u", 8), Op(3, 2, "g", "u", 8), Op(1, 4, "g", "u", 8), Op(1, 2, "h", "u", 8),
        Op(1, 2, "g", "v", 8), Op(1, 2, "g", "u", 12), Op(1, 2, "g", "u", 8, True),
        Op(1, 2, "g", "u", 8, remark="r"), Op(1, 2, "g", "u", 8, operator="o"),
    ]  # fmt: skip

    assert len({content(op) for op in ops}) == len(ops)
