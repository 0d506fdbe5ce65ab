"""Whatever is changed of a signed record, it is refused; nothing stops the decoding."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.harness import KafkaRow
from tests.spark.test_verification import (
    ADMIN,
    OLD_STOCK,
    RULES,
    SHA1,
    STOCK,
    half,
    op,
    refusals,
    signer,
)

from checkback.protocol.properties import HALF_PROTOCOL_ORDER, OP_PROTOCOL_ORDER
from checkback.security import AccessControl
from checkback.streaming.source.access_table import AccessTable
from checkback.streaming.source.verification import RecordVerification

RECORDS = 400
Header = tuple[str, bytes | None]
Change = Callable[[random.Random, list[Header]], None]
NAMES = [*HALF_PROTOCOL_ORDER, *OP_PROTOCOL_ORDER, "Signature", "__BORNHOST", "", "a", "ключ"]
BYTES = [
    b"",
    b"\xff",
    b"\x00",
    b"\xc3\x28",
    b"\xed\xa0\x80",
    b"9" * 40,
    b"-1",
    b" ",
    b"0 a b",
    b"==",
]
SIGNERS = [signer(), STOCK, OLD_STOCK, replace(SHA1, born_host="10.0.2.9"), ADMIN]


def lose(chance: random.Random, headers: list[Header]) -> None:
    del headers[chance.randrange(len(headers))]


def double(chance: random.Random, headers: list[Header]) -> None:
    headers.insert(chance.randint(0, len(headers)), chance.choice(headers))


def swap(chance: random.Random, headers: list[Header]) -> None:
    one, other = chance.randrange(len(headers)), chance.randrange(len(headers))
    headers[one], headers[other] = headers[other], headers[one]


def add(chance: random.Random, headers: list[Header]) -> None:
    header = (chance.choice(NAMES), chance.choice([None, *BYTES]))
    headers.insert(chance.randint(0, len(headers)), header)


def rename(chance: random.Random, headers: list[Header]) -> None:
    at = chance.randrange(len(headers))
    headers[at] = chance.choice(NAMES), headers[at][1]


def rewrite(chance: random.Random, headers: list[Header]) -> None:
    at = chance.randrange(len(headers))
    headers[at] = headers[at][0], chance.choice([None, *BYTES])


def flip(chance: random.Random, headers: list[Header]) -> None:
    at = chance.randrange(len(headers))
    name, value = headers[at][0], bytearray(headers[at][1] or b"?")
    value[chance.randrange(len(value)) if value else 0] ^= 1 << chance.randrange(8)
    headers[at] = name, bytes(value)


def shift(chance: random.Random, headers: list[Header]) -> None:
    """Move a byte from one value to the next: together they are as before."""
    at = chance.randrange(len(headers) - 1)
    (name, value), (next_name, next_value) = headers[at : at + 2]
    value, next_value = value or b"", next_value or b""
    headers[at : at + 2] = [(name, value[:-1]), (next_name, value[-1:] + next_value)]


CHANGES: list[Change] = [lose, double, swap, add, rename, rewrite, flip, shift]


def signed(chance: random.Random) -> KafkaRow:
    by = chance.choice(SIGNERS)
    properties = {
        chance.choice(["a", "b", "ключ", "TAGS"]): chance.choice(["", "1", "é"])
        for _ in range(chance.randrange(3))
    }
    # All of these accounts may write to a topic and a group of their own.
    group = "orders" if by.access_key == "orders-service" else "g"
    if chance.random() < 0.4:
        return op(by, group=group)
    real_topic = "paid" if by.access_key == "orders-service" else "t"
    key = chance.choice([None, b"", b"k"])
    return half(by, real_topic=real_topic, properties=properties, key=key, group=group)


def forged(chance: random.Random, row: KafkaRow, others: list[KafkaRow]) -> KafkaRow:
    headers: list[Header] = [*(row.headers or [])]
    if chance.random() < 0.1:
        headers[-1] = (chance.choice(others).headers or [])[-1]
    else:
        for _ in range(chance.randint(1, 3)):
            chance.choice(CHANGES)(chance, headers)
    nulls_too: Any = headers
    return replace(row, headers=nulls_too)


def meaning(row: KafkaRow) -> object:
    """What a record says: a null value is read as an empty one."""
    headers = [(name, value or b"") for name, value in row.headers or []]
    return row.topic, row.partition, row.key, row.value, headers


@pytest.mark.parametrize("seed", [1, 2])
def test_a_record_that_nobody_signed_so_is_refused(spark: SparkSession, seed: int) -> None:
    chance = random.Random(seed)
    verification = RecordVerification(spark, AccessTable.of(AccessControl.parse(RULES, "rules")))
    originals = [signed(chance) for _ in range(RECORDS)]
    changed = [forged(chance, row, originals) for row in originals]
    are_signed = [meaning(row) for row in originals]

    believed = refusals(spark, verification, originals)
    judged = refusals(spark, verification, changed)

    assert set(believed) == {0}
    taken = [row for row, refusal in zip(changed, judged, strict=True) if refusal == 0]
    assert [row for row in taken if meaning(row) not in are_signed] == []
    assert sum(refusal != 0 for refusal in judged) > RECORDS * 0.8
