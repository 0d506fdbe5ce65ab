"""What the sink's compiled part tells the ledger: the same as Python, of every record once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
from tests.integration.forwarded import REAL_TOPIC, odd_halves, random_halves, send
from tests.integration.sinking import World, ids_of_halves, of_halves, outcome

from checkback.sinks.ledger.notes import HeaderCollectingReader, TransactionNames
from checkback.sinks.ledger.rows import unpacked
from checkback.sinks.process.writer_pool import WriteRequest, Writers
from checkback.state import Action


def noted(world: World, wanted: list[int], *, native_sink: bool) -> TransactionNames:
    """Whom records of the half topic speak of, found either way."""
    pipeline = replace(world.settings.pipeline, native_sink=native_sink)
    writer = World(replace(world.settings, pipeline=pipeline), world.real).writer()
    find = None if writer.forwarder is None else writer.forwarder.names
    assert (find is not None) == native_sink
    reader = HeaderCollectingReader(writer.halves, {0: np.array(wanted, np.int64)}, find)
    names = reader.names(0)
    writer.halves.close()
    if writer.forwarder is not None:
        writer.forwarder.close()
    return names


def test_the_ledger_is_told_the_same_names_either_way(world: World) -> None:
    halves = [*odd_halves(world), *random_halves(world, 50)]
    send(world, halves)
    wanted = [*range(len(halves))]

    slow, fast = (noted(world, wanted, native_sink=native_sink) for native_sink in (False, True))

    for column in ("transaction_id", "producer_group", "real_topic", "time_ms"):
        assert getattr(fast, column).equals(getattr(slow, column)), column


def test_of_a_name_that_is_too_long_its_beginning_is_noted(world: World) -> None:
    """As of refused halves: names of megabytes, all that a batch holds, fit into no column."""
    name = "é".encode() * 100_000
    order = ("TRAN_MSG", "PGROUP", "UNIQ_KEY", REAL_TOPIC)
    send(
        world, [(None, b"body", [(each, name) for each in names]) for names in (order, order[::-1])]
    )

    for native_sink in (False, True):
        names = noted(world, [0, 1], native_sink=native_sink)
        for column in (names.transaction_id, names.producer_group, names.real_topic):
            assert column.to_pylist() == ["é" * 512] * 2


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
    pipeline = replace(world.settings.pipeline, ledger="/unused")
    settings = replace(world.settings, pipeline=pipeline)
    kinds = [Action.COMMIT, Action.COMMIT, Action.PREPARED, Action.ROLLBACK]
    decided = outcome(*((kinds[number % 4], number, 0) for number in range(90)))

    answer = Writers().write(WriteRequest(settings, 0, 0, [decided.pack()]))

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
    pipeline = replace(world.settings.pipeline, ledger="/unused")
    settings = replace(world.settings, pipeline=pipeline)
    decided = outcome(
        *((Action.PREPARED if number % 2 else Action.COMMIT, number, 0) for number in range(30))
    )
    identities = ids_of_halves(30)
    identities[8] = identities[9]
    batch = [of_halves(decided, identities).pack()]

    answer = Writers().write(WriteRequest(settings, 0, 0, batch))

    assert len(pa.Table.from_batches(unpacked(answer.ledger))) == 30
    found = sorted(int(body or b"") for _, body, _ in world.read(world.real))
    assert found == [*range(0, 8, 2), *range(10, 30, 2)]
    assert [body for _, body, _ in world.read(world.names.refused)] == [b"8"]
