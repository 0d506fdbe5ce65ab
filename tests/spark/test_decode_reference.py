"""Whatever bytes a record has, the decoding makes the event of it that a plain reading makes.

Records are of every kind. Most are right but for a change or two; some stand on the topic of
another kind.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from tests.seeds import chosen_seed
from tests.spark.harness import RULES, KafkaRow
from tests.spark.plain_reading import (
    BODY_BYTES_MAX,
    DECIDED_KINDS,
    OP_RANGES,
    RELAYED,
    Event,
    PlainReading,
    first,
)
from tests.spark.test_verification import NOW_MS
from tests.spark.test_verification_reference import GROUPS, TOPICS, a_signer, random_rules, sign

from checkback.checkpoints.own_files.batch_terms import OpRange
from checkback.checkpoints.own_files.relay_terms import RelaySpan, RelayTerms
from checkback.protocol.properties import HALF_PROTOCOL_ORDER, OP_PROTOCOL_ORDER
from checkback.protocol.refusals import ACCESS_REASONS, RefusedReason
from checkback.protocol.topics import SYSTEM_TOPICS, TopicNames, is_system_topic
from checkback.security import AccessControl
from checkback.state import EventKind
from checkback.streaming.batch.terms import TaskTerms
from checkback.streaming.source.decode import decode
from checkback.streaming.source.verification import RecordVerification
from checkback.streaming.spark.java_protocol import TERMS_PROPERTY

RECORDS = 3_000
IN_DECODING = {one for one in RefusedReason if one < 40} - {
    RefusedReason.TRANSACTIONS_REJECTED, RefusedReason.OP_GROUP_WRONG,
    RefusedReason.OP_TRANSACTION_ID_WRONG,
}  # fmt: skip
ROW_TYPE = (
    "key binary, value binary, topic string, partition int, offset long, time_ms long,"
    " headers array<struct<key: string, value: binary>>"
)
Header = tuple[str, bytes | None]
MADE = (
    *["TRANSACTION_CHECK_TIMES"] * 4, "DIRECT_ID", "DIRECT_CLOSED", "FENCED_HALF", "Signature",
    "x", "", "a\0b", "PGROUP\0", "\0", "\ufffd", "x\ufffdy", "ключ", "\U0001f600", "\uffff",
    "pgroup",
)  # fmt: skip
STRANGE_NAMES = (*HALF_PROTOCOL_ORDER, *OP_PROTOCOL_ORDER, *MADE)
NUMBERS = (
    b"0", b"8", b"9", b"12", b"08", b"5", b"4999", b"5119", b"5120", b"00000077", b"-1", b"+1",
    b" 7", b"7 ", b"7\n", b"1.5", b"1e3", b"0x10", b"\xef\xbc\x91", b"999999999999",
    b"0000000000030", b"1000000000000", b"%d" % (2**62), b"%d" % (2**63 - 1), b"%d" % 2**63,
    b"%d" % 2**64, b"%d" % (-(2**63) + 1), b"9" * 300, b"0" * 300, b"--5",
)  # fmt: skip
STRANGE_VALUES = (
    None, b"", b"\0", b"\xff", b"\xed\xa0\x80", b"\xef\xbf\xbd", b"true", b"TRUE", b"true ", b"tru",
    b"d", b"u", b"f", b"t", b"D", b"dd", b"g" * 255, b"g" * 256, b"u" * 1_024, b"u" * 1_025,
    b"t" * 127, b"t" * 128, b"\xc3\xa9" * 64, *(one.encode() for one in sorted(SYSTEM_TOPICS)),
    b"p-RMQ_SYS_X", b"p-__x", b"RMQ_SYS", b"_x", b"xRMQ_SYS_x", b"__", b"p-rules", b"rules",
)  # fmt: skip

BODIES = (None, b"", b"b" * BODY_BYTES_MAX, b"b" * (BODY_BYTES_MAX + 1))
EDGES: dict[str, tuple[bytes, ...]] = {
    "PGROUP": (b"g" * 255, b"g" * 256),
    "UNIQ_KEY": (b"u" * 1_024, b"u" * 1_025),
    "REAL_TOPIC": (b"t" * 127, b"t" * 128, b"t" * 129, b"p-RMQ_SYS_X", b"RMQ_SYS", b"p-rules"),
    "CHECK_IMMUNITY_TIME_IN_SECONDS": (b"9" * 12, b"9" * 13, b"0" * 12, b"0" * 13),
    "COMMIT_OR_ROLLBACK": (b"0", b"8", b"9", b"12", b"16", b"08"),
    "TRANSACTION_CHECK_TIMES": (b"0", b"1", b"%d" % (2**63 - 1), b"%d" % 2**63),
}


def right(chance: random.Random, names: TopicNames, at: int) -> KafkaRow:
    """Return a record that is as it should be."""
    group, named = (
        chance.choice(GROUPS).encode(),
        b"%d" % chance.choice([5, chance.randrange(10**8)]),
    )
    transaction_id = b"u%d" % chance.randrange(50)
    kind = chance.randrange(10)
    headers: list[Header] = []
    if kind < 4:
        to = chance.choice(TOPICS).encode()
        said = (b"true", group, transaction_id, to, chance.choice([b"", b"30", b"0"]))
        topic = names.half
        headers += zip(HALF_PROTOCOL_ORDER, said, strict=True)
    elif kind < 8:
        topic = chance.choice([names.op, names.op, names.direct_op])
        state = chance.choice([b"0", b"8", b"12", b"9"])
        said = (b"d", state, group, transaction_id, chance.choice([b"true", b"false"]))
        headers += zip(OP_PROTOCOL_ORDER, said, strict=True)
    else:
        topic = names.feedback
        headers += [("TAGS", b"u"), ("TRANSACTION_CHECK_TIMES", b"3")]
    value = b"body" if kind < 4 else named
    time_ms = chance.choice([99, -1, 2**53, *[NOW_MS] * 7])
    key = chance.choice([None, b"", b"k"])
    return KafkaRow(topic, chance.randrange(4), at, time_ms, value, headers, key)


def changed(chance: random.Random, row: KafkaRow, names: TopicNames) -> KafkaRow:
    """Return a record with one change."""
    headers: list[Header] = [*(row.headers or ())]
    at = chance.randrange(len(headers)) if headers else 0
    what = chance.randrange(11)
    if what == 0:
        return replace(row, topic=chance.choice([*names.read, names.direct_op]))
    if what == 1:
        values = chance.choice([NUMBERS, STRANGE_VALUES, BODIES, BODIES])
        return replace(row, value=chance.choice(values))
    if what == 2:
        chance.shuffle(headers)
    elif what == 3:
        return replace(row, headers=None)
    elif what < 6 or not headers:
        added = chance.choice(STRANGE_NAMES), chance.choice(STRANGE_VALUES + NUMBERS)
        headers.insert(chance.choice([0, 5, 6, len(headers)]), added)
    elif what == 6:
        headers[at] = chance.choice(STRANGE_NAMES), headers[at][1]
    elif what == 7:
        del headers[at]
    else:
        name, _ = headers[at]
        edges = EDGES.get(name, STRANGE_VALUES) if what < 10 else STRANGE_VALUES + NUMBERS
        headers[at] = name, chance.choice(edges)
    return replace(row, headers=headers)


def records(
    chance: random.Random, names: TopicNames, rules: AccessControl | None = None
) -> list[KafkaRow]:
    """Return records of all topics; of each Kafka partition, in its order."""
    made = []
    for _ in range(RECORDS):
        at = chance.choice([0, 1, 1_023, 4_095, 2**31, 2**62 - 1])
        row = right(chance, names, at)
        for _ in range(chance.choice([0, 1, 1, 2, 3])):
            row = changed(chance, row, names)
        if rules is not None and row.headers and chance.random() < 0.7:
            row = sign(row, a_signer(chance, rules))
        if row.topic == names.op and chance.random() < 0.6:
            row = as_decided(chance, row, names)
        made.append(row)
    return made


def as_decided(chance: random.Random, op: KafkaRow, names: TopicNames) -> KafkaRow:
    """Return what a relay writes of an op; now and then something else."""
    kind = chance.choice([*DECIDED_KINDS, *DECIDED_KINDS, "mark", "", "passed_"])
    at = chance.choice([b"0", b"77", b"%d" % (2**63 - 1), *NUMBERS, None])
    headers = [*(op.headers or ()), (f"__checkback.decided.{kind}", at)]
    row = replace(op, topic=names.decided, headers=headers)
    return changed(chance, row, names) if chance.random() < 0.2 else row


def rows_of(spark: SparkSession, found: list[KafkaRow]) -> DataFrame:
    """Return records as Spark's source has them: with their headers in an UnsafeArrayData."""
    fields = [
        (row.key, row.value, row.topic, row.partition, row.offset, row.time_ms, row.headers)
        for row in found
    ]
    made = spark.createDataFrame(fields, ROW_TYPE).coalesce(1)
    return made.withColumn("timestamp", f.timestamp_millis("time_ms"))


@pytest.fixture
def ranges(spark: SparkSession) -> Iterator[None]:
    context: Any = spark.sparkContext
    ranges = {at: OpRange(*bounds) for at, bounds in OP_RANGES.items()}
    rules = replace(RULES, max_message_bytes=BODY_BYTES_MAX)
    relay = {
        at: RelayTerms(tuple(RelaySpan(first, 0, end) for first, end in spans))
        for at, spans in RELAYED.items()
    }
    text = TaskTerms(rules, relay=relay).to_property(ranges)
    context.setLocalProperty(TERMS_PROPERTY, text)
    yield
    context.setLocalProperty(TERMS_PROPERTY, None)


def differing(found: list[Any], wanted: list[Event]) -> list[Any]:
    assert len(found) == len(wanted)
    return [
        (want, tuple(got)) for want, got in zip(wanted, found, strict=True) if want != tuple(got)
    ]


@pytest.mark.usefixtures("ranges")
@pytest.mark.parametrize("page_size", [1, 1_024, 65_536])
def test_a_record_becomes_the_event_that_its_bytes_say(spark: SparkSession, page_size: int) -> None:
    chance = random.Random(chosen_seed(page_size))
    names = TopicNames("p-", rules="p-rules")
    given = records(chance, names)
    reading = PlainReading(names, page_size)
    wanted = [event for event in map(reading.event, given) if event is not None]

    found = decode(rows_of(spark, given), names, page_size)

    assert differing(found.collect(), wanted) == []
    assert {event.kind for event in wanted} == set(EventKind)
    assert refusals(wanted) == IN_DECODING


def refusals(events: list[Event]) -> set[int]:
    refused = (EventKind.REFUSED_HALF, EventKind.REFUSED_OP)
    return {event.detail for event in events if event.kind in refused}


def names_a_system_topic(row: KafkaRow) -> bool:
    topic = first(row, "REAL_TOPIC") or b""
    return is_system_topic(topic.decode("utf-8", "replace"))


@pytest.mark.usefixtures("ranges")
@pytest.mark.parametrize("seed", range(2))
def test_with_access_control_it_becomes_what_the_rules_and_its_bytes_say(
    spark: SparkSession, seed: int
) -> None:
    chance = random.Random(chosen_seed(seed))
    names, rules = TopicNames(rules="rules"), random_rules(chance)
    # `acl check`, which the reading asks, wants an admin for a system topic, where the pipeline
    # refuses all; both refuse, and only the reasons differ.
    given = [row for row in records(chance, names, rules) if not names_a_system_topic(row)]
    reading = PlainReading(names, 1_024, rules)
    wanted = [event for event in map(reading.event, given) if event is not None]
    verification = RecordVerification(spark, rules)

    found = decode(rows_of(spark, given), names, 1_024, verification)

    assert differing(found.collect(), wanted) == []
    assert len(refusals(wanted) & ACCESS_REASONS) > 3
