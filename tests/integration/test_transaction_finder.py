"""A transaction is found by its half's position or its id, with what the sink wrote about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.integration.sinking import World, commits, outcome

from checkback.operations.topics.position import Position
from checkback.operations.transactions.finder import TransactionFinder, open_finder
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import NotFoundError
from checkback.protocol.records import Op
from checkback.state import Action, Outcome


@pytest.fixture
def finder(world: World) -> Iterator[TransactionFinder]:
    servers = str(world.settings.connection["bootstrap.servers"])
    settings = Settings(bootstrap_servers=servers, topic_prefix=world.names.prefix)
    with open_finder(settings) as found:
        yield found


def write(world: World, *batches: Outcome) -> None:
    """Have the sink write batches, and wait until everybody can read them."""
    writer = world.writer()
    for number, decided in enumerate(batches):
        writer.write([decided], number)
    for topic in (world.real, world.names.settled, world.names.check("g"), world.names.discarded):
        world.read(topic)


def send_op(world: World, op: Op) -> None:
    producer = Producer(dict(world.settings.connection))
    headers: Any = op.headers()
    producer.produce(world.names.op, op.value(), op.key(), op.half_partition, headers=headers)
    assert producer.flush(30) == 0


def test_a_position_finds_one_transaction_from_half_to_final(
    world: World, finder: TransactionFinder
) -> None:
    world.halves([b"zero", b"one"])
    send_op(world, Op(0, 1, "g", "id-1", 8))
    write(world, commits(0, 1))

    [found] = finder.find("0:1")

    assert (found.half_at, found.transaction_id) == (Position(0, 1), "id-1")
    assert (found.group, found.real_topic) == ("g", world.real)
    assert (found.verdict, found.delivered_by) == ("commit", "pipeline")
    assert sorted(event.kind for event in found.events) == ["final", "half", "mark", "op"]
    [final] = found.of_kind("final")
    assert final.facts == {"body_bytes": 3}


def test_an_id_finds_every_half_that_has_it(world: World, finder: TransactionFinder) -> None:
    world.halves([b"first"])
    world.halves([b"resumed", b"another"])  # its first half has the same id again

    assert [one.half_at.offset for one in finder.find("id-0")] == [0, 1]
    assert [one.verdict for one in finder.find("id-1")] == ["pending"]


def test_a_discarded_half_shows_that_it_was_asked_for(
    world: World, finder: TransactionFinder
) -> None:
    world.halves([b"zero"])
    write(world, outcome((Action.CHECK, 0, 1)), outcome((Action.DISCARD_CHECK_LIMIT, 0, 1)))

    [found] = finder.find("0:0")

    assert found.verdict == "discard"
    assert [event.facts["check_times"] for event in found.of_kind("check request")] == [1]
    [discarded] = found.of_kind("discarded")
    assert discarded.facts == {"reason": "check limit", "check_times": 1}
    assert not found.of_kind("final")


def test_a_half_that_retention_has_deleted_is_known_by_its_mark(
    world: World, finder: TransactionFinder
) -> None:
    world.halves([b"zero", b"one"])
    write(world, commits(0))
    world.delete_halves_before(1)

    [found] = finder.find("0:0")

    assert (found.verdict, found.transaction_id) == ("commit", "")
    assert finder.half_at(Position(0, 0)) is None


@pytest.mark.parametrize("name", ["0:7", "9:0", "no-such-id"])
def test_what_was_never_sent_is_not_found(
    name: str, world: World, finder: TransactionFinder
) -> None:
    world.halves([b"zero"])

    with pytest.raises(NotFoundError, match=f"No half message {name} was found"):
        finder.find(name)


def test_an_id_is_searched_only_among_halves_of_the_given_time(
    world: World, finder: TransactionFinder
) -> None:
    world.halves([b"zero"])
    [found] = finder.find("id-0")
    stored_ms = found.of_kind("half")[0].time_ms

    assert len(finder.find("id-0", stored_from_ms=stored_ms)) == 1
    with pytest.raises(NotFoundError):
        finder.find("id-0", stored_from_ms=stored_ms + 60_000)
