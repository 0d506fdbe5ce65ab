"""The sink fences a direct session and tells it in its transaction; a failure costs that half."""

from __future__ import annotations

import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import KafkaException, Producer
from tests.integration.sinking import World, of_halves, outcome

from checkback.protocol.direct import direct_transactional_id
from checkback.protocol.records import fenced_headers, half_headers
from checkback.sinks.kafka import sessions
from checkback.sinks.kafka.sessions import fence_session
from checkback.state import Action
from checkback.state.identity import identity_words
from checkback.testing.waiting import wait_until

IDENTITY, REST = identity_words(b"g", b"u")
FENCE = of_halves(outcome((Action.FENCE, 0, 3)), [(IDENTITY, REST)])


def session_of(world: World) -> Producer:
    """Return a session with an open transaction, and store a half that it may deliver."""
    name = direct_transactional_id(
        world.settings.pipeline.topic_prefix, "g", "0123456789abcdef" * 2
    )
    store(world, name)
    return producing(world, name)


def store(world: World, session: str) -> None:
    producer = Producer(dict(world.settings.connection))
    headers = half_headers(
        producer_group="g",
        transaction_id="u",
        real_topic=world.real,
        properties={},
        direct_id=session,
    )
    producer.produce(world.names.half, b"body", None, 0, headers=list(headers))
    assert producer.flush(30.0) == 0


def producing(world: World, session: str) -> Producer:
    producer = Producer({**world.settings.connection, "transactional.id": session})
    producer.init_transactions(30.0)
    producer.begin_transaction()
    producer.produce(world.real, b"body")
    assert producer.flush(30.0) == 0
    return producer


def told(world: World) -> list[bytes | None]:
    found = world.read(world.names.direct_op)
    assert all(headers == fenced_headers(IDENTITY) for _, _, headers in found)
    return [value for _, value, _ in found]


def test_a_fenced_session_can_not_commit_and_the_feedback_names_its_half(world: World) -> None:
    session = session_of(world)

    report = world.writer().write([FENCE], 0, 0)

    assert told(world) == [b"0"]
    assert report.counts["fences_failed"] == 0
    with pytest.raises(KafkaException):
        session.commit_transaction(30.0)
    wait_until(lambda: world.read(world.real) == [])


def test_a_replayed_fence_does_no_harm(world: World) -> None:
    session_of(world)
    writer = world.writer()
    writer.write([FENCE], 0, 0)

    writer.write([FENCE], 1, 0)

    assert told(world) == [b"0", b"0"]


def test_a_session_that_can_not_be_fenced_costs_its_half_only(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = session_of(world)
    monkeypatch.setattr(sessions, "BATCH_S", 0.0)

    report = world.writer().write([FENCE], 0, 0)

    assert told(world) == []
    assert report.counts["fences_failed"] == 1
    session.commit_transaction(30.0)


@pytest.mark.parametrize("name", ["", "payments-writer", "checkback-direct-other-"])
def test_an_id_that_is_no_session_of_the_group_is_left_alone(world: World, name: str) -> None:
    """Else a half could have any producer of the cluster fenced."""
    victim = f"{name}{world.real}"
    store(world, victim)
    producer = producing(world, victim)

    world.writer().write([FENCE], 0, 0)

    producer.commit_transaction(30.0)
    assert told(world) == [b"0"]


def new_session(world: World) -> str:
    return direct_transactional_id(world.settings.pipeline.topic_prefix, "g", uuid.uuid4().hex)


def fence(world: World, session: str) -> None:
    fence_session(world.settings.connection, world.names.half, session, 30.0)


def commit_one_more(world: World, producer: Producer) -> None:
    producer.begin_transaction()
    producer.produce(world.real, b"late")
    producer.commit_transaction(30.0)


def test_a_fence_leaves_what_was_committed(world: World) -> None:
    session = new_session(world)
    producer = producing(world, session)
    producer.commit_transaction(30.0)

    fence(world, session)

    assert len(world.read(world.real)) == 1
    with pytest.raises(KafkaException):
        commit_one_more(world, producer)
    assert len(world.read(world.real)) == 1


def test_a_fence_that_meets_a_commit_waits_until_it_is_whole_or_undoes_it(world: World) -> None:
    """At whatever step of the commit: after the fence nothing more of the session is decided."""
    visible = 0
    for round_ in range(16):
        session = new_session(world)
        producer = producing(world, session)
        with ThreadPoolExecutor(1) as pool:
            fencing = pool.submit(fence, world, session)
            time.sleep(round_ * 0.006)  # a fence takes some ten milliseconds to reach the broker
            succeeded = commits(producer)
            fencing.result(60)
        seen = len(world.read(world.real))
        if succeeded:
            assert seen == visible + 1
        else:  # the answer to a commit that was made may have been lost
            assert seen in (visible, visible + 1)
        assert not commits(producer)
        assert len(world.read(world.real)) == seen
        visible = seen
    print(f"{visible} of 16 commits were made before the fence")


def commits(producer: Producer) -> bool:
    try:
        producer.commit_transaction(30.0)
    except KafkaException:
        return False
    return True
