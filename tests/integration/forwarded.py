"""Halves of every kind, for tests of what the sink's compiled part makes of them."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from tests.integration.sinking import World

from checkback.protocol.properties import NOT_ON_FINAL
from checkback.sinks.report import BatchReport
from checkback.testing.topics import END_WAIT_MS

Half = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]
Final = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], tuple[int, int]]

SEED = 20
RANDOM_HALVES = 300
REAL_TOPIC, REAL_QID = "REAL_TOPIC", "REAL_QID"
FIRST_SENT_MS = int(time.time() * 1_000)
"""Each half has the time of the one before it, and 1 ms. Brokers delete records of 1970 at once."""


def to(topic: str, *more: tuple[str, bytes | None]) -> list[tuple[str, bytes | None]]:
    return [("PGROUP", b"g"), (REAL_TOPIC, topic.encode()), *more]


def odd_halves(world: World) -> list[Half]:
    """What hardly any client writes, and every one may."""
    real, narrow, compacted = world.real, f"{world.real}-narrow", f"{world.real}-compacted"
    key = b"key"
    return [
        (key, b"plain", to(real, ("mine", b"yes"))),
        (key, b"no header at all", []),
        (key, b"no topic", [("mine", b"yes")]),
        (key, b"an empty topic", to("")),
        (key, b"no topic's name", [(REAL_TOPIC, None)]),
        (key, b"the first that says something", [(REAL_TOPIC, b""), *to(real), *to("nowhere")]),
        (key, b"a topic that is not", to(f"{real}-nowhere")),
        (key, b"no UTF-8", [(REAL_TOPIC, b"\xff\xfe")]),
        (key, b"no topic's name is as long", to("x" * 600)),
        (key, b"a topic of ours", to(world.names.refused)),
        (key, b"partition 1", to(real, (REAL_QID, b"1"))),
        (key, b"partition 0, at last", to(real, (REAL_QID, b"1"), (REAL_QID, b"0"))),
        (key, b"partition 1, said first", to(real, (REAL_QID, b"1"), (REAL_QID, b"x"))),
        (key, b"a partition that is not", to(real, (REAL_QID, b"2"))),
        (key, b"far too many", to(real, (REAL_QID, b"9" * 30))),
        (key, b"less than none", to(real, (REAL_QID, b"-1"))),
        (key, b"an empty partition", to(real, (REAL_QID, b""))),
        (key, b"no partition's number", to(real, (REAL_QID, None))),
        (key, None, to(real)),
        (key, b"", to(real)),
        (b"", b"an empty key", to(real)),
        (None, b"no key", to(real, (REAL_QID, b"0"))),
        (None, b"no key for a compacted topic", to(compacted)),
        (key, b"a key for a compacted topic", to(compacted)),
        (key, b"null and empty", to(real, ("null", None), ("empty", b""))),
        (key, b"twice", to(real, ("mine", b"1"), ("mine", b"2"), ("", b"no name"))),
        (key, b"bytes", to(real, ("mine", bytes(range(256))))),
        (key, b"all that is taken off", to(real, *((name, b"1") for name in sorted(NOT_ON_FINAL)))),
        (key, b"one", to(narrow)),
        (key, b"n" * 5_000, to(narrow)),
        (key, b"two", to(narrow)),
        *((key, b"l" * (1_048_588 - less), to(real)) for less in (0, 120, 200, 220, 240, 260, 400)),
        (key, b"behind the large ones", to(real)),
    ]


def random_halves(world: World, count: int) -> list[Half]:
    chance = random.Random(SEED)
    names = [*sorted(NOT_ON_FINAL - {REAL_TOPIC, REAL_QID}), "TAGS", "KEYS", "a", "b", "TRAN", "é"]
    halves: list[Half] = []
    for number in range(count):
        extra: list[tuple[str, bytes | None]] = [
            (chance.choice(names), chance.randbytes(chance.randrange(4))) for _ in range(5)
        ]
        headers = to(world.real, (REAL_QID, b"%d" % chance.randrange(3)), *extra)
        chance.shuffle(headers)
        halves.append((b"%d" % chance.randrange(9), b"%d" % number, headers))
    return halves


def send(world: World, halves: Sequence[Half]) -> None:
    producer = Producer({**world.settings.connection, "message.max.bytes": 4_000_000})
    for number, (key, value, headers) in enumerate(halves):
        sent: Any = headers
        producer.produce(
            world.names.half, value, key, 0, headers=sent, timestamp=FIRST_SENT_MS + number
        )
    producer.flush()


def everything(world: World, count: int) -> dict[tuple[str, int], list[Final]]:
    """All that a read_committed consumer sees on the topics that finals may go to.

    Waits for all records: the brokers end a transaction on the partitions only after its
    producer was told so.
    """
    consumer = Consumer(
        {
            **world.settings.connection,
            "group.id": "audit",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": END_WAIT_MS,
        }
    )
    topics = consumer.list_topics().topics
    prefixes = (world.real, world.names.refused)
    parts = [
        (name, p) for name in topics if name.startswith(prefixes) for p in topics[name].partitions
    ]
    consumer.assign([TopicPartition(name, partition, 0) for name, partition in parts])
    found: dict[tuple[str, int], list[Final]] = {part: [] for part in parts}
    ended = 0
    while ended < len(parts) or count > sum(map(len, found.values())):
        message = consumer.poll(10)
        assert message is not None
        if message.error():
            ended += 1
            continue
        headers: Any = message.headers() or []
        at = (message.topic() or "", message.partition() or 0)
        found[at].append((message.key(), message.value(), headers, message.timestamp()))
    consumer.close()
    return found


def written_by(world: World, batch: list[Any], *, native_sink: bool) -> tuple[Any, BatchReport]:
    """What one batch adds to the topics, written either way by a query of its own."""
    before = everything(world, 0)
    query_id = f"{world.settings.query_id}-{native_sink}"
    pipeline = replace(world.settings.pipeline, native_sink=native_sink)
    other = World(replace(world.settings, pipeline=pipeline, query_id=query_id), world.real)
    report = other.writer().write(batch, 0)
    other.close()
    written = report.counts["finals"] + report.counts["finals_refused"]
    after = everything(world, sum(map(len, before.values())) + written)
    # A topic made a moment ago may not have been listed before.
    return {part: after[part][len(before.get(part, [])) :] for part in after}, report
