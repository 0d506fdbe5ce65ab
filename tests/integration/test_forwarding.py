"""The sink's compiled part against a real broker: it must do what the sink does in Python."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from numpy.typing import NDArray
from tests.integration.sinking import (
    World,
    commits,
    ids_of_halves,
    make_world,
    of_halves,
    outcome,
)

from checkback.protocol.errors import BrokerError
from checkback.protocol.properties import NOT_ON_FINAL, first_value
from checkback.sinks.batch_report import BatchReport
from checkback.sinks.kafka.transaction import MarkedProducer
from checkback.sinks.ledger.notes import Names, NotingReader
from checkback.sinks.ledger.rows import unpacked
from checkback.sinks.native.library import native
from checkback.sinks.writers import WriteRequest, Writers
from checkback.state import Action
from checkback.state.identity import identity_words
from checkback.state.outcome import REST_UNKNOWN

Half = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]
Final = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], tuple[int, int]]

SEED = 20
RANDOM_HALVES = 300
REAL_TOPIC, REAL_QID = "REAL_TOPIC", "REAL_QID"


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


def make_topics(world: World) -> None:
    topics = [
        NewTopic(f"{world.real}-narrow", 1, 1, config={"max.message.bytes": "4000"}),
        NewTopic(f"{world.real}-compacted", 1, 1, config={"cleanup.policy": "compact"}),
    ]
    admin = AdminClient(dict(world.settings.connection))
    for future in admin.create_topics(topics).values():
        future.result()


def send(world: World, halves: Sequence[Half]) -> None:
    producer = Producer({**world.settings.connection, "message.max.bytes": 4_000_000})
    for number, (key, value, headers) in enumerate(halves):
        sent: Any = headers
        producer.produce(world.names.half, value, key, 0, headers=sent, timestamp=1_000 + number)
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
    other = World(replace(world.settings, query_id=query_id, native_sink=native_sink), world.real)
    report = other.writer().write(batch, 0, 0)
    other.close()
    written = report.counts["finals"] + report.counts["finals_refused"]
    after = everything(world, sum(map(len, before.values())) + written)
    return {part: after[part][len(before[part]) :] for part in after}, report


def comparable(found: dict[tuple[str, int], list[Final]]) -> Any:
    """Finals by the time of their halves, each of which has its own.

    A refused record bears the time at which it was refused. And librdkafka holds a final for which
    the key decides back until it knows the topic, but no final whose half names its partition.
    """
    return {
        part: [one[:3] for one in finals]
        if part[0].endswith("REFUSED_TOPIC")
        else sorted(finals, key=lambda final: final[3])
        for part, finals in found.items()
    }


def same_both_ways(world: World, batch: list[Any]) -> None:
    slow, slow_report = written_by(world, batch, native_sink=False)
    fast, fast_report = written_by(world, batch, native_sink=True)

    fast_ones, slow_ones = comparable(fast), comparable(slow)
    for part, finals in slow_ones.items():
        for one, other in zip(fast_ones[part], finals, strict=True):
            assert one == other, part
    del fast_report.counts["native_fallbacks"]  # where the first try was rejected
    assert fast_report.counts == slow_report.counts


def test_odd_halves_become_the_same_either_way(world: World) -> None:
    make_topics(world)
    halves = odd_halves(world)
    send(world, halves)

    same_both_ways(world, [commits(*range(len(halves)))])


def test_a_half_that_only_the_broker_finds_too_large_is_found_out(world: World) -> None:
    """Its headers are, which nobody measures; the others of its batch are not held up."""
    wide = (b"key", b"wide", to(world.real, ("wide", b"w" * 1_100_000)))
    far = [(b"key", b"%d" % number, to(world.real)) for number in range(5)]
    send(world, [*far, wide, *far])

    same_both_ways(world, [commits(*range(11))])
    assert [body for _, body, _ in world.read(world.names.refused)] == [b"wide", b"wide"]


def test_ordinary_halves_become_the_same_either_way(world: World) -> None:
    send(world, random_halves(world, RANDOM_HALVES))

    same_both_ways(world, [commits(*range(RANDOM_HALVES))])


def odd_names(world: World) -> list[Half]:
    """Halves that say who they are in every way that headers allow, or do not."""
    chance = random.Random(SEED)
    values = [
        b"",
        b"g",
        b"id",
        b"\xff\xfe",
        b"\0",
        "\u00fc".encode(),
        bytes(range(256)),
        b"i" * 300,
        None,
    ]
    halves: list[Half] = []
    for number in range(RANDOM_HALVES):
        names = chance.choices(["PGROUP", "UNIQ_KEY", "PGROUP\0", "pgroup", "mine"], k=4)
        who = [(name, chance.choice(values)) for name in names]
        headers = [*who, (REAL_TOPIC, world.real.encode()), (REAL_QID, b"0")]
        halves.append((b"key", b"%d" % number, headers))
    return halves


def read_identity(half: Half) -> tuple[int, int]:
    """Of what a client in C reads of the half, which ends a header's name at a NUL."""
    headers = [(name.split("\0")[0], value) for name, value in half[2]]
    group, transaction_id = (first_value(headers, name) for name in ("PGROUP", "UNIQ_KEY"))
    return identity_words(group or b"", transaction_id or b"")


def test_who_a_half_is_of_is_read_the_same_either_way(world: World) -> None:
    """Of three halves one is the one that was decided, one is another, one is not known."""
    halves = odd_names(world)
    send(world, halves)
    identities = [read_identity(half) for half in halves]
    for at in range(len(halves)):
        first, rest = identities[at]
        identities[at] = [(first, rest), (first, rest ^ 1), (first, REST_UNKNOWN)][at % 3]

    same_both_ways(world, [of_halves(commits(*range(len(halves))), identities)])
    replaced = {int(body or b"") for _, body, _ in world.read(world.names.refused)}
    assert set(range(1, len(halves), 3)) <= replaced
    assert len(world.read(world.real)) > len(halves) // 2


def test_identities_are_computed_as_in_python() -> None:
    chance = random.Random(SEED)
    lengths = [*range(140), 200, 1_000, 99_999]
    names = [(chance.randbytes(chance.choice(lengths)), chance.randbytes(n)) for n in lengths]
    names += [(one, other) for other, one in names]
    names += [(b"", b""), (b"g", b"\0"), (b"g\0", b""), (b"1:g", b"1:g"), (b"\xff", b"\xff" * 64)]

    for group, transaction_id in names:
        assert native_identity(group, transaction_id) == identity_words(group, transaction_id)


def native_identity(group: bytes, transaction_id: bytes) -> tuple[int, int]:
    found = native()
    assert found is not None
    words = np.zeros(2, np.int64)
    given = (group, len(group), transaction_id, len(transaction_id))
    found.functions.identity_of(*given, words.ctypes.data)
    return int(words[0]), int(words[1])


def test_what_is_no_commit_goes_between_them_as_ever(world: World) -> None:
    world.halves([b"%d" % number for number in range(20)])
    kinds = [Action.COMMIT, Action.CHECK, Action.ROLLBACK, Action.DISCARD_CHECK_LIMIT]
    decided = outcome(*((kinds[number % 4], number, 1) for number in range(20)))

    same_both_ways(world, [decided])
    assert len(world.read(world.names.check("g"))) == 2 * 5
    assert len(world.read(world.names.discarded)) == 2 * 5


def test_halves_far_from_one_another_and_out_of_turn(world: World) -> None:
    world.halves([b"%d" % number for number in range(3_000)])
    writer = world.writer()

    writer.write([commits(2_999, 0, 1, 700, 1_500)], 0, 0)
    writer.write([commits(2, 699, 2_998)], 1, 0)

    bodies = sorted(int(body or b"") for _, body, _ in world.read(world.real))
    assert bodies == [0, 1, 2, 699, 700, 1_500, 2_998, 2_999]


def test_more_than_the_queue_of_the_producer_holds(world: World) -> None:
    """The queue has room for 64 MB."""
    world.halves([b"%6d" % number + bytes(800_000) for number in range(100)])

    report = world.writer().write([commits(*range(100))], 0, 0)

    assert report.counts["finals"] == 100
    bodies = sorted(int((body or b"")[:6]) for _, body, _ in world.read(world.real))
    assert bodies == list(range(100))


def test_a_half_that_retention_took_is_lost_and_the_next_is_final(world: World) -> None:
    world.halves([b"a", b"b", b"c"])
    world.delete_halves_before(2)

    report = world.writer().write([commits(0, 1, 2)], 0, 0)

    assert report.counts["halves_lost"] == 2
    assert [body for _, body, _ in world.read(world.real)] == [b"c"]


def test_a_topic_whose_every_half_is_gone(world: World) -> None:
    world.halves([b"a", b"b", b"c"])
    world.delete_halves_before(3)

    report = world.writer().write([commits(0, 1, 2)], 0, 0)

    assert report.counts["halves_lost"] == 3


def test_what_the_consumer_is_told_in_place_of_a_half_is_raised(world: World) -> None:
    world.halves([b"a", b"b"])
    world.delete_halves_before(1)
    writer = world.writer()
    assert writer.forwarder is not None
    writer.forwarder.connection["auto.offset.reset"] = "error"

    with pytest.raises(BrokerError, match=r"Reading .*-0 failed") as failure:
        writer.write([commits(0)], 0, 0)

    assert failure.value.fields["code"] == "_AUTO_OFFSET_RESET"


def test_settings_that_librdkafka_does_not_take_are_said(world: World) -> None:
    writer = world.writer()
    assert writer.forwarder is not None
    writer.forwarder.connection["no.setting"] = "1"

    with pytest.raises(BrokerError, match=r'No such configuration property: "no\.setting"'):
        _ = writer.forwarder.reader


def test_after_a_run_that_was_given_up_nothing_is_missing(world: World) -> None:
    world.halves([b"%d" % number for number in range(10)])
    writer = world.writer()
    find = writer.directory.find
    given_up: list[str] = []

    def once(topic: str) -> Any:
        if not given_up:
            given_up.append(topic)
            raise BrokerError("The topics can't be listed.", remedy="Wait.")
        return find(topic)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(writer.directory), "find", lambda _, topic: once(topic))
        with pytest.raises(BrokerError, match="can't be listed"):
            writer.write([commits(*range(10))], 0, 0)
    writer.close()
    writer.write([commits(*range(10))], 0, 0)

    assert len(world.read(world.real)) == 10


@dataclass
class Asked:
    """A reader that notes what it is asked for, and finds nothing."""

    offsets: list[int]

    def read(self, partition: int, offsets: NDArray[np.int64]) -> Iterator[tuple[int, None]]:
        assert partition == 0
        self.offsets.extend(offsets.tolist())
        return iter(())

    def close(self) -> None:
        pass


def test_finals_are_forwarded_at_all(world: World) -> None:
    """Else each of these tests would pass by what Python does."""
    world.halves([b"a", b"b"])
    writer = world.writer()
    writer.halves.close()
    asked: list[int] = []
    writer.halves = Asked(asked)

    report = writer.write([commits(0, 1)], 0, 0)

    assert report.counts["finals"] == 2
    assert asked == []
    assert [body for _, body, _ in sorted(world.read(world.real))] == [b"a", b"b"]


def test_a_half_that_was_decided_is_forwarded_and_another_is_left(world: World) -> None:
    world.halves([b"a", b"b", b"c"])
    writer = world.writer()
    writer.halves.close()
    asked: list[int] = []
    writer.halves = Asked(asked)
    identities = ids_of_halves(3)
    identities[1] = identities[0]

    with pytest.raises(
        ValueError, match="argument 2 is longer"
    ):  # of what it is asked for it finds nothing
        writer.write([of_halves(commits(0, 1, 2), identities)], 0, 0)

    assert asked == [1]


def test_each_client_is_told_of_once_it_is_made(world: World) -> None:
    found = native()
    assert found is not None

    one = MarkedProducer(world.settings, 0, found)
    other = MarkedProducer(world.settings, 1, found)

    assert one.client
    assert other.client
    assert one.client != other.client
    one.close()
    other.close()


def test_without_the_compiled_part_python_does_it(bootstrap_servers: str, unique: str) -> None:
    world = make_world(bootstrap_servers, f"{unique}p", native_sink=False)
    world.halves([b"a"])
    writer = world.writer()

    writer.write([commits(0)], 0, 0)

    assert writer.forwarder is None
    assert [body for _, body, _ in world.read(world.real)] == [b"a"]
    world.close()


def noted(world: World, wanted: list[int], *, native_sink: bool) -> Names:
    """Whom records of the half topic speak of, found either way."""
    writer = World(replace(world.settings, native_sink=native_sink), world.real).writer()
    find = None if writer.forwarder is None else writer.forwarder.names
    assert (find is not None) == native_sink
    reader = NotingReader(writer.halves, {0: np.array(wanted, np.int64)}, find)
    names = reader.names(0)
    writer.halves.close()
    if writer.forwarder is not None:
        writer.forwarder.close()
    return names


def test_the_ledger_is_told_the_same_names_either_way(world: World) -> None:
    halves = [*odd_halves(world), *random_halves(world, 50)]
    send(world, halves)
    # Not where a name's header is null, of which Python makes two things.
    wanted = [at for at, half in enumerate(halves) if (REAL_TOPIC, None) not in half[2]]

    slow, fast = (noted(world, wanted, native_sink=native_sink) for native_sink in (False, True))

    for column in ("transaction_id", "producer_group", "real_topic", "time_ms"):
        assert getattr(fast, column).equals(getattr(slow, column)), column


def test_names_behind_the_end_of_the_topic_are_null(world: World) -> None:
    """As where retention takes the last halves while they are read."""
    world.halves([b"a", b"b"])

    names = noted(world, [0, 1, 2, 3], native_sink=True)

    assert names.transaction_id.to_pylist() == ["id-0", "id-1", None, None]
    assert names.time_ms.is_null().to_pylist() == [False, False, True, True]


def test_forwarding_for_the_ledger_notes_every_record_once(world: World) -> None:
    """Also those that are not committed, are gone, or wait for the producer's queue."""
    world.halves([b"%d" % number + bytes(900_000) for number in range(90)])
    world.delete_halves_before(1)
    settings = replace(world.settings, keeps_ledger=True)
    kinds = [Action.COMMIT, Action.COMMIT, Action.PREPARED, Action.ROLLBACK]
    decided = outcome(*((kinds[number % 4], number, 0) for number in range(90)))

    answer = Writers().write(WriteRequest(settings, 0, 0, 0, [decided.pack()]))

    rows = pa.Table.from_batches(unpacked(answer.ledger)).to_pylist()
    assert [row["half_offset"] for row in rows] == list(range(90))
    assert [row["transaction_id"] for row in rows] == [None, *(f"id-{n}" for n in range(1, 90))]
    assert [row["event"] for row in rows[:4]] == [
        "committed",
        "committed",
        "prepared",
        "rolled_back",
    ]
    committed = [number for number in range(1, 90) if number % 4 < 2]
    found = sorted(int(dict(headers)["UNIQ_KEY"][3:]) for _, _, headers in world.read(world.real))
    assert found == committed


def test_forwarding_for_the_ledger_compares_too(world: World) -> None:
    world.halves([b"%d" % number for number in range(30)])
    settings = replace(world.settings, keeps_ledger=True)
    decided = outcome(
        *((Action.PREPARED if number % 2 else Action.COMMIT, number, 0) for number in range(30))
    )
    identities = ids_of_halves(30)
    identities[8] = identities[9]
    batch = [of_halves(decided, identities).pack()]

    answer = Writers().write(WriteRequest(settings, 0, 0, 0, batch))

    assert len(pa.Table.from_batches(unpacked(answer.ledger))) == 30
    found = sorted(int(body or b"") for _, body, _ in world.read(world.real))
    assert found == [*range(0, 8, 2), *range(10, 30, 2)]
    assert [body for _, body, _ in world.read(world.names.refused)] == [b"8"]
