"""What is signed: every byte of a record, and no two records have the same content."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from checkback.protocol.properties import SIGNED_TAIL
from checkback.protocol.records import Op, half_headers
from checkback.protocol.signed_content import signed_content, signed_tail, signed_tail_largest

TEXTS = st.text(max_size=4)
HEADERS = st.lists(st.tuples(TEXTS, TEXTS.map(str.encode)), max_size=4)
MAYBE = st.none() | st.binary(max_size=4)
RECORDS = st.tuples(
    st.sampled_from(["half", "op"]), st.none() | st.integers(0, 12), MAYBE, MAYBE, HEADERS
)


def read(content: bytes) -> object:
    """Read a content as anybody could who has only its description."""
    line, _, rest = content.partition(b"\n")
    algorithm, topic, place, head_size, key_size = line.split(b" ")
    head, rest = rest[: int(head_size)], rest[int(head_size) :]
    parts = head.split(b"\xff")
    count = len(parts) // 2
    key, value = (
        (None, rest) if key_size == b"-" else (rest[: int(key_size)], rest[int(key_size) :])
    )
    return algorithm, topic, place, parts[:count], parts[count:], key, value


@given(RECORDS)
def test_a_content_says_all_of_its_record(
    record: tuple[str, int | None, bytes | None, bytes | None, list[tuple[str, bytes]]],
) -> None:
    topic, partition, key, value, headers = record

    content = signed_content(topic, partition, key, value, headers, "HmacSHA256")

    assert read(content) == (
        b"HmacSHA256",
        topic.encode(),
        b"-" if partition is None else b"%d" % partition,
        [*(name.encode() for name, _ in headers), b"Signature"],
        [*(content for _, content in headers), b""],
        key,
        value or b"",
    )


@given(RECORDS, RECORDS)
def test_different_records_have_different_contents(first: Any, second: Any) -> None:
    def same(record: Any) -> Any:
        # Without a value is as with an empty one: neither record is taken.
        return (*record[:3], record[3] or b"", record[4])

    contents = [
        signed_content(topic, partition, key, value, headers, "HmacSHA256")
        for topic, partition, key, value, headers in (first, second)
    ]
    assert (contents[0] == contents[1]) == (same(first) == same(second))


def test_where_rocketmq_signs_the_same_this_does_not() -> None:
    """RocketMQ's content has values without names and separators."""
    empty: list[tuple[str, bytes | None]] = [("topic", b"abc"), ("queueId", b"")]
    moved: list[tuple[str, bytes | None]] = [("topic", b""), ("queueId", b"abc")]

    made = [signed_content("t", None, None, b"", one, "HmacSHA1") for one in (empty, moved)]

    assert made[0] != made[1]


def test_the_tail_has_its_order_and_its_largest_size() -> None:
    tail = signed_tail("key", "10.0.0.1", 1_700_000_000_000)
    largest = signed_tail_largest("key", "10.0.0.1")

    assert tuple(name for name, _ in largest) == ("__BORNHOST", *SIGNED_TAIL)
    assert [name for name, _ in tail] == ["__BORNHOST", *SIGNED_TAIL[:-1]]
    assert signed_tail("key", "", 1)[0][0] == "AccessKey"
    assert all(len(tail[at][1]) <= len(largest[at][1]) for at in range(len(tail)))


def test_an_op_binds_partition_offset_and_verdict() -> None:
    def content(op: Op) -> bytes:
        return signed_content("op", op.half_partition, op.key(), op.value(), op.headers(), "x")

    ops = [
        Op(1, 2, "g", "u", 8), Op(3, 2, "g", "u", 8), Op(1, 4, "g", "u", 8), Op(1, 2, "h", "u", 8),
        Op(1, 2, "g", "v", 8), Op(1, 2, "g", "u", 12), Op(1, 2, "g", "u", 8, True),
        Op(1, 2, "g", "u", 8, remark="r"), Op(1, 2, "g", "u", 8, operator="o"),
    ]  # fmt: skip

    assert len({content(op) for op in ops}) == len(ops)


def test_a_half_is_not_an_op() -> None:
    headers = half_headers(producer_group="g", transaction_id="u", real_topic="t", properties={})

    assert signed_content("t", None, b"u", b"1", list(headers), "x") != signed_content(
        "t", 0, b"u", b"1", list(headers), "x"
    )
