"""A transaction is found by its half's position or its id, with what the sink wrote about it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.integration.sinking import World, commits

from checkback.operations.transactions.finder import TransactionFinder, open_finder
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import NotFoundError
from checkback.state import Outcome


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


def test_a_half_that_retention_has_deleted_is_known_by_its_mark(
    world: World, finder: TransactionFinder
) -> None:
    world.halves([b"zero", b"one"])
    write(world, commits(0))
    world.delete_halves_before(1)

    [found] = finder.find("0:0")

    assert (found.verdict, found.transaction_id) == ("commit", "")
    assert found.of_kind("half") == []


def test_an_id_is_searched_only_among_halves_of_the_given_time(
    world: World, finder: TransactionFinder
) -> None:
    world.halves([b"zero"])
    [found] = finder.find("id-0")
    stored_ms = found.of_kind("half")[0].time_ms

    assert len(finder.find("id-0", stored_from_ms=stored_ms)) == 1
    with pytest.raises(NotFoundError):
        finder.find("id-0", stored_from_ms=stored_ms + 60_000)
