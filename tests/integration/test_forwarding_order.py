"""What the sink's compiled part leaves to Python is overtaken by nothing that goes to its topic."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from kafka import KafkaProducer
from tests.integration.bad_records import RawName, make_topic
from tests.integration.forwarded import FIRST_SENT_MS, SEED, Half, to, written_by
from tests.integration.sinking import World, commits

from checkback.protocol.record_size import record_bytes_max
from checkback.protocol.records import final_parts
from checkback.sinks.native.clients import Bools, Ints

FINAL_BYTES_MAX = 1_048_588
"""Of the real topic's."""
MIXED_HALVES = 400


def send_as_is(world: World, halves: Sequence[Half]) -> None:
    """Send halves; the names of their headers are given as Latin-1."""
    producer = KafkaProducer(
        bootstrap_servers=str(world.settings.connection["bootstrap.servers"]),
        max_request_size=4_000_000,
    )
    for number, (key, value, headers) in enumerate(halves):
        raw = [(RawName(name), content or b"") for name, content in headers]
        producer.send(world.names.half, value, key, raw, 0, FIRST_SENT_MS + number)
    producer.flush()
    producer.close()


def filled(key: bytes, headers: list[tuple[str, bytes | None]], number: int, more: int) -> Half:
    """A half whose final is that many bytes larger than its topic takes."""
    final = final_parts([(name, value or b"") for name, value in headers], 0, number).headers
    start = b"%d " % number
    room = FINAL_BYTES_MAX - record_bytes_max(key, start, final)
    return key, start + bytes(room + more), headers


def number_of(body: bytes | None) -> int:
    return int((body or b"").split(b" ")[0])


def same_order_both_ways(world: World, count: int) -> dict[tuple[str, int], list[int]]:
    """Commit that many halves each way, and return what both wrote, by the halves' numbers."""
    slow, slow_report = written_by(world, [commits(*range(count))], native_sink=False)
    fast, fast_report = written_by(world, [commits(*range(count))], native_sink=True)

    numbers = {part: [number_of(final[1]) for final in finals] for part, finals in slow.items()}
    for part, finals in fast.items():
        assert [number_of(final[1]) for final in finals] == numbers[part], part
        is_final = part[0].startswith(world.real)
        assert not is_final or finals == slow[part]
    assert fast_report.counts == slow_report.counts
    return numbers


def finals_of(world: World, numbers: dict[tuple[str, int], list[int]]) -> list[list[int]]:
    return [some for (topic, _), some in numbers.items() if topic.startswith(world.real) and some]


def left_of(world: World, count: int) -> list[bool]:
    """Commit that many halves, and return which of them the compiled part left to Python."""
    writer = world.writer()
    assert writer.forwarder is not None
    reader = writer.forwarder
    forward = reader.forward
    lefts: list[list[bool]] = []

    def noting(partition: int, offsets: Ints, left: Bools, *more: Any) -> None:
        forward(partition, offsets, left, *more)
        lefts.append(left.tolist())

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reader, "forward", noting)
        writer.write([commits(*range(count))], 0)
    [left] = lefts
    return left


def test_another_topic_is_forwarded_to_as_before(world: World) -> None:
    """Nothing else holds: a large half slows its own topic only."""
    here, there = to(world.real), to(make_topic(world, "other"))
    small: list[Half] = [
        (b"k", b"%d" % at, headers) for at, headers in enumerate((here, here, there, here))
    ]
    send_as_is(world, [small[0], filled(b"k", here, 1, 0), *small[2:]])

    assert left_of(world, len(small)) == [False, True, False, True]


def mixed(world: World) -> list[Half]:
    chance = random.Random(SEED)
    other = make_topic(world, "mixed")
    topics = (world.real, world.real, world.real, other, "", f"{world.real}-nowhere")
    halves: list[Half] = []
    for number in range(MIXED_HALVES):
        key = b"%d" % chance.randrange(3)
        extra = chance.choice([(), (), (), (("\xc3\xa9", b""),)])
        headers = to(chance.choice(topics), *extra)
        if chance.random() < 0.06:
            halves.append(filled(key, headers, number, chance.choice((-60, -30, -1, 0, 1, 60))))
        else:
            halves.append((key, b"%d" % number, headers))
    return halves


def test_large_and_plain_halves_of_few_keys_come_out_in_one_order(world: World) -> None:
    send_as_is(world, mixed(world))

    numbers = same_order_both_ways(world, MIXED_HALVES)

    for some in finals_of(world, numbers):
        assert some == sorted(some)
    assert sum(map(len, finals_of(world, numbers))) > MIXED_HALVES // 3
