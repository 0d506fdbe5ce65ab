"""The sink's compiled part against a real broker: it must do what the sink does in Python."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.integration.bad_records import bodies, make_topic
from tests.integration.forwarded import (
    RANDOM_HALVES,
    REAL_QID,
    REAL_TOPIC,
    SEED,
    Final,
    Half,
    odd_halves,
    random_halves,
    send,
    to,
    written_by,
)
from tests.integration.sinking import World, commits, ids_of_halves, of_halves, outcome

from checkback.protocol.errors import BrokerError
from checkback.protocol.properties import first_value
from checkback.sinks.kafka.cluster.topic_directory import KnownTopic
from checkback.sinks.native.clients import NativeSender
from checkback.sinks.native.library import native
from checkback.state import Action
from checkback.state.formats.identity import identity_words
from checkback.state.formats.outcome import REST_UNKNOWN


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
    make_topic(world, "narrow", max_message_bytes="4000")
    make_topic(world, "compacted", cleanup_policy="compact")
    halves = odd_halves(world)
    send(world, halves)

    same_both_ways(world, [commits(*range(len(halves)))])


def test_a_half_that_only_the_broker_finds_too_large_is_found_out(world: World) -> None:
    """Its headers are, which nobody measures; the others of its batch are not held up."""
    wide = (b"key", b"wide", to(world.real, ("wide", b"w" * 1_100_000)))
    far = [(b"key", b"%d" % number, to(world.real)) for number in range(5)]
    send(world, [*far, wide, *far])

    same_both_ways(world, [commits(*range(11))])
    assert bodies(world, world.names.refused) == [b"wide", b"wide"]


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
        names = chance.choices(["PGROUP", "UNIQ_KEY", "pgroup", "mine"], k=4)
        who = [(name, chance.choice(values)) for name in names]
        headers = [*who, (REAL_TOPIC, world.real.encode()), (REAL_QID, b"0")]
        halves.append((b"key", b"%d" % number, headers))
    return halves


def read_identity(half: Half) -> tuple[int, int]:
    group, transaction_id = (first_value(half[2], name) for name in ("PGROUP", "UNIQ_KEY"))
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


def test_names_of_topics_without_end_are_not_all_looked_through(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each half would look through all names before its own: a minute for 200,000 of them."""
    added: list[bytes] = []
    add_topic = NativeSender.add_topic

    def counted(sender: NativeSender, name: bytes, known: KnownTopic | None) -> None:
        added.append(name)
        add_topic(sender, name, known)

    monkeypatch.setattr(NativeSender, "add_topic", counted)
    second = make_topic(world, "2")
    nowhere = [to(f"{world.real}-nowhere-{number}") for number in range(1_500)]
    halves = [*nowhere[:750], to(world.real), *nowhere[750:], to(second), to(world.real)]
    send(world, [(b"key", b"%d" % at, headers) for at, headers in enumerate(halves)])

    report = world.writer().write([commits(*range(len(halves)))], 0)

    assert len(added) == len(set(added)) == 1_000
    assert (report.counts["finals"], report.refused["REAL_TOPIC_MISSING"]) == (3, 1_500)
    assert [body for _, body, _ in world.read(world.real)] == [b"750", b"1502"]
    assert [body for _, body, _ in world.read(second)] == [b"1501"]


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

    writer.write([commits(2_999, 0, 1, 700, 1_500)], 0)
    writer.write([commits(2, 699, 2_998)], 1)

    found = sorted(map(int, bodies(world, world.real)))
    assert found == [0, 1, 2, 699, 700, 1_500, 2_998, 2_999]


def test_more_than_the_queue_of_the_producer_holds(world: World) -> None:
    """The queue has room for 64 MB."""
    world.halves([b"%6d" % number + bytes(800_000) for number in range(100)])

    report = world.writer().write([commits(*range(100))], 0)

    assert report.counts["finals"] == 100
    assert [int(body[:6]) for body in bodies(world, world.real)] == list(range(100))


def test_what_the_consumer_is_told_in_place_of_a_half_is_raised(world: World) -> None:
    world.halves([b"a", b"b"])
    world.delete_halves_before(1)
    writer = world.writer()
    assert writer.forwarder is not None
    known = writer.forwarder._settings
    writer.forwarder._settings = {**known, "auto.offset.reset": "error"}

    with pytest.raises(BrokerError, match=r"Reading .*-0 failed") as failure:
        writer.write([commits(0)], 0)

    assert failure.value.fields["code"] == "_AUTO_OFFSET_RESET"


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
            writer.write([commits(*range(10))], 0)
    writer.close()
    writer.write([commits(*range(10))], 0)

    assert len(world.read(world.real)) == 10


@dataclass
class Asked:
    """A reader that notes what it is asked for, and finds nothing."""

    offsets: list[int] = field(default_factory=list)

    def read(self, partition: int, offsets: NDArray[np.int64]) -> Iterator[tuple[int, None]]:
        assert partition == 0
        self.offsets.extend(offsets.tolist())
        return iter(())

    def close(self) -> None:
        pass


def test_a_half_that_was_decided_is_forwarded_and_another_is_left(world: World) -> None:
    """Else each of these tests would pass by what Python does."""
    world.halves([b"a", b"b", b"c"])
    writer, asked = world.writer(), Asked()
    writer.halves.close()
    writer.halves = asked
    identities = ids_of_halves(3)
    identities[1] = identities[0]

    # Of what it is asked for it finds nothing.
    with pytest.raises(ValueError, match="argument 2 is longer"):
        writer.write([of_halves(commits(0, 1, 2), identities)], 0)

    assert asked.offsets == [1]
